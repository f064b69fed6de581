package main

import (
	"os"
	"runtime/debug"

	"github.com/haul-project/haul/internal/remote"
)

const (
	// copyGarbage is how far, in percent, the heap of a copy over SFTP may grow before it
	// is collected. x/crypto allocates for each packet, and little stays live, so by
	// default a collection runs for every few megabytes moved.
	copyGarbage = 400

	// copyHeap is from how many bytes on it is collected earlier. It is above what the
	// client has in flight and in buffers of files, 128 MiB, with as much again and more
	// for a tree, so that it is not collected all the time.
	copyHeap = 512 << 20
)

// relaxCollector lets the garbage collector run less often in a copy over SFTP. GOGC and
// GOMEMLIMIT, if they are set, have precedence.
func relaxCollector(over remote.Protocol) {
	if over != remote.SFTP || os.Getenv("GOGC") != "" {
		return
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(copyHeap)
	}
	debug.SetGCPercent(copyGarbage)
}
