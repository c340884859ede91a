// Package load asks a server for as much as it promises to bear.
package load
