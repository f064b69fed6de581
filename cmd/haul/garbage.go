package main

import (
	"os"
	"runtime/debug"

	"github.com/haul-project/haul/internal/remote"
)

// copyGarbage is how far, in percent of what is live, the heap of a copy over SFTP may grow
// before it is collected. x/crypto allocates for each packet, and little stays live, so by
// default a collection runs for every few megabytes moved.
const copyGarbage = 400

// relaxCollector lets the garbage collector run less often in a copy of files over SFTP.
// Little is live then: the data in flight, 128 MiB at most, and some names. A tree may have
// millions of directories, so that four times as much would be too much memory, and a
// collector that is to stay below a fixed limit would run all the time. GOGC, if it is set,
// has precedence.
func relaxCollector(over remote.Protocol, recursive bool) {
	if over == remote.SFTP && !recursive && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(copyGarbage)
	}
}
