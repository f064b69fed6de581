package peer

import (
	"fmt"
	"path/filepath"
)

// These are the names of the tools that generate loads over TCP.
const (
	Wrk     = "wrk"     // the load generator, if it is present
	Curl    = "curl"    // fetches files
	TCPLoad = "tcpload" // checks answers, holds connections, and is the load generator if there is no wrk
)

// streamTools adds the tools Wrk, Curl and TCPLoad to the set, or records them as absent.
func (f *finder) streamTools() {
	for _, t := range []struct{ pkg, name, versionFlag string }{{Wrk, Wrk, "-v"}, {Curl, Curl, "--version"}} {
		p, err := f.unpacked(t.pkg, t.name)
		if err != nil {
			f.absent(err.Error(), t.name+OfTCP)
			continue
		}
		f.set.Tools = append(f.set.Tools, Tool{Name: t.name, Version: p.version(t.versionFlag), Path: p.path, env: p.env})
	}
	p, err := runnable(filepath.Join(f.bin, TCPLoad))
	if err != nil {
		f.absent(fmt.Sprintf("there is no %s in %s: %v; \"make bin/%s\" builds it", TCPLoad, f.bin, unwrap(err), TCPLoad), TCPLoad+OfTCP)
		return
	}
	f.set.Tools = append(f.set.Tools, Tool{Name: TCPLoad, Version: p.compiler(), Path: p.path})
}
