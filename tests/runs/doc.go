// Package runs holds the tests of launched commands from outside: a real server with its
// helper, and the commands procinsh run and procinsh runs.
package runs
