// Package ownprocess reports the limits of this process, and the resources that it has used.
package ownprocess

import "fmt"

// SpareFiles is how many descriptors a load generator needs in addition to those of its transfers.
const SpareFiles = 32

// MayOpen returns an error with advice if this process may not have this many sockets open. what
// names the things that need one socket each, such as "transfers".
func MayOpen(sockets int, what string) error {
	limit := OpenFiles()
	if sockets+SpareFiles <= limit {
		return nil
	}
	return fmt.Errorf("%d %s at once need %d open files, and this process may have %d: raise the limit (ulimit -n), or ask for less",
		sockets, what, sockets+SpareFiles, limit)
}
