// Package api is the HTTP side of procinsh: routes, the guard in front of them,
// peer authentication, the JSON contract types and the event streams. It asks
// the lower packages for values and turns their errors into statuses in one
// place; no handler touches procfs itself.
package api
