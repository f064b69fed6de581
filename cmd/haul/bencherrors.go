package main

import (
	"fmt"
	"strings"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/tftp/load"
	"github.com/haul-project/haul/tftp/transfer"
)

// byLoad begins the errors of package load, which name the package.
const byLoad = "load: "

// A benchError is why a benchmark did not come to its end, or not to a good
// one, in the words of the command line.
type benchError struct {
	url string // as it was typed
	err error
}

func (e benchError) Error() string {
	// Behind "warm-up: ", the prefix is not the first.
	return fmt.Sprintf("bench %s: %s", e.url, strings.Replace(e.err.Error(), byLoad, "", 1))
}

func (e benchError) Unwrap() error { return e.err }

// loadFlags are the flags for what package load names otherwise.
var loadFlags = []struct{ said, flag string }{{"warm-up", "warmup"}, {"shortest timer", "min-timer"}}

// checkLoad says what is wrong with a load, and which flag it comes from.
func checkLoad(l *load.Load, url string) error {
	if err := l.Target.Check(); err != nil {
		return failure.Usage.Errorf("URL %q: %w", url, err)
	}
	switch {
	case l.Target.Mode != transfer.Octet:
		return failure.Usage.Errorf("URL %q: only mode octet can be measured", url)
	case l.NoOptions && (l.BlockSize != 0 || l.Window != 0):
		return failure.Usage.Errorf("--no-options asks for none, and --blksize and --windowsize are options")
	case l.Verify && !l.Write:
		return failure.Usage.Errorf("--verify fetches again what --put has sent; downloads are compared anyway")
	}
	err := l.Check()
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), byLoad) // it begins with a name, and the value
	for _, f := range loadFlags {
		if rest, ok := strings.CutPrefix(text, f.said); ok {
			text = f.flag + rest
		}
	}
	return failure.Usage.Errorf("--%s", text)
}

// silent reports whether no transfer got any answer, so that each ran out of time. A
// run that package load itself gives up, after some seconds, does not count.
func silent(r *load.Report) bool {
	if r.Transfers == 0 || r.Failed < r.Transfers || r.First != (load.Latency{}) {
		return false
	}
	for text := range r.Errors {
		if !strings.Contains(text, "not done in ") && !strings.Contains(text, transfer.ErrSilent.Error()) {
			return false // this machine's doing, such as that it has no port left
		}
	}
	return true
}
