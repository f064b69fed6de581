// Package ownprocess is what this process may have of the machine, and what it has used.
package ownprocess

import "fmt"

// SpareFiles are the descriptors that a load generator needs besides those of its
// transfers.
const SpareFiles = 32

// MayOpen returns an error that says what to do if this process may not open as many
// sockets at once, one for each of what ("transfers").
func MayOpen(sockets int, what string) error {
	limit := OpenFiles()
	if sockets+SpareFiles <= limit {
		return nil
	}
	return fmt.Errorf("%d %s at once need %d open files, and this process may have %d: raise the limit (ulimit -n), or ask for less",
		sockets, what, sockets+SpareFiles, limit)
}
