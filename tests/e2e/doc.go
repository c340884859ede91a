// Package e2e holds the tests that start the real binary and talk to it as its
// clients do.
package e2e
