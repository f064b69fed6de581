package status

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/store"
)

const (
	// maxFailures is how many failures are kept. Older failures are dropped.
	maxFailures = 256

	// maxName and maxCause are how many bytes of a file's name and of a cause are kept.
	maxName  = 256
	maxCause = 512
)

// failures keeps the latest failures.
type failures struct {
	mu sync.Mutex
	// n is the number of failures since the start, including those of earlier processes; guarded by
	// mu.
	n    uint64
	last [maxFailures]Failure // guarded by mu
}

// add stores a failure and numbers it. If maxFailures are stored already, the failure replaces the
// oldest one.
func (f *failures) add(one Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	one.ID = f.n
	f.last[f.n%maxFailures] = one
}

// list returns the failures that are kept, the latest first.
func (f *failures) list() []Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept()
}

// kept returns the failures that are kept, the latest first. The caller holds mu.
func (f *failures) kept() []Failure {
	list := make([]Failure, 0, min(f.n, maxFailures))
	for i := range min(f.n, maxFailures) {
		list = append(list, f.last[(f.n-i)%maxFailures])
	}
	return list
}

// isFailure reports whether a transfer ended in a way that needs attention. It is normal that
// clients ask only for the size, start again, or look for missing files.
func isFailure(e meter.Ended) bool {
	switch e.Result {
	case meter.Done, meter.Unconfirmed, meter.Probe, meter.Replaced:
		return false
	}
	return !e.Routine
}

func newFailure(e meter.Ended, now time.Time) Failure {
	f := Failure{
		Time: now.UTC(), Protocol: string(e.Protocol), Direction: direction(e.Write), Peer: peerText(e.Peer), User: valid(e.User), File: valid(clip(e.File, maxName)),
		FileBytes: invalid(clip(e.File, maxName)), Result: string(e.Result), Bytes: e.Bytes, Seconds: seconds(e.Duration), Advice: adviceOn(e),
	}
	if e.Err != nil {
		f.Cause = valid(clip(e.Err.Error(), maxCause))
	}
	return f
}

// adviceOn returns advice for the administrator about a failure, or "" if there is no advice.
func adviceOn(e meter.Ended) string {
	switch is := func(errs ...error) bool {
		return slices.ContainsFunc(errs, func(one error) bool { return errors.Is(e.Err, one) })
	}; {
	case is(store.ErrNoSpace, syscall.ENOSPC, syscall.EDQUOT):
		return "Free space on the disk, or raise the quota."
	case is(syscall.EMFILE, syscall.ENFILE):
		return "Raise the limit of open files: ulimit -n, or LimitNOFILE= of the unit."
	case is(syscall.EROFS):
		return "The file system is mounted read-only."
	case is(syscall.EIO):
		return "The disk reports an error; look into the kernel's log."
	case is(fs.ErrPermission) && e.Write:
		return "Look whether --upload, the user's access and the mode of the directory allow it."
	case is(fs.ErrPermission):
		return "Look at --access, and whether the user that haul runs as may read the file."
	case is(fs.ErrNotExist):
		return "Look for the name in the directory that is served; upper and lower case differ, unless --fold-case is set."
	case is(fs.ErrExist):
		return "A file has that name; --upload overwrite lets clients replace it."
	case e.Result == meter.PeerSilent && e.Protocol == meter.TFTP && e.Bytes == 0:
		return "Nothing came back: a firewall may block TFTP's other ports (--ports or --single-port), or the path may lose large packets (--mtu)."
	case e.Result == meter.PeerSilent && e.Protocol == meter.TFTP:
		return "The machine stopped answering: look whether it was switched off, and at its cable and switch port; many resends mean that the path loses packets."
	case e.Result == meter.PeerSilent:
		return "The client took nothing for a while: look whether it still runs, and at the network between."
	}
	return ""
}
