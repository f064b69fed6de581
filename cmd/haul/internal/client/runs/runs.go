// Package runs finds out whether the run of haul that left a temporary file on a server is still
// alive. A run is one execution of haul. Each run has an ID, which is part of the names of its
// temporary files. It also locks a local file that is named after the ID. So a later run on this
// machine can find out which temporary files are still in use.
package runs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/internal/ownfile"
	"github.com/haul-project/haul/internal/tempname"
)

const (
	// keepFor is how long the local file of a dead run is kept, if the run was killed or left
	// temporary files behind.
	keepFor = 30 * 24 * time.Hour

	// maxRuns is the maximum number of local files. To create a new one, the oldest files of dead
	// runs are removed. If maxRuns runs are alive, further runs have no ID.
	maxRuns = 1000
)

// Runs gives access to the runs of one user on this machine, including this process. Its methods
// are safe for concurrent use.
type Runs struct {
	dir  string
	host string // a hash of this machine's name, because several machines may share dir
	most int    // maximum number of files in dir

	begin sync.Once
	id    string
	file  *os.File // the locked file of this run; nil if the run has no ID

	mu    sync.Mutex
	ended map[string]bool // guarded by mu: runs known to have ended
	left  bool            // guarded by mu: this run may have left a temporary file on a server
}

// OfUser returns the runs of this user, whose files are in haul/runs below $XDG_STATE_HOME or
// ~/.local/state. Without a home directory no run has an ID.
func OfUser() *Runs {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return in(filepath.Join(dir, "haul", "runs"))
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return in("")
	}
	return in(filepath.Join(home, ".local", "state", "haul", "runs"))
}

// in returns the runs whose local files are in dir. The directory need not exist. If dir is "", no
// run has an ID.
func in(dir string) *Runs {
	host, _ := os.Hostname()
	return &Runs{dir: dir, host: tempname.Hash("haul run on " + host), most: maxRuns, ended: map[string]bool{}}
}

// ID returns the ID of this run. The first call creates and locks the local file. If that fails,
// the ID is "".
func (r *Runs) ID() string {
	r.begin.Do(func() {
		id := tempname.NewRun()
		if f, err := r.make(id); err == nil {
			r.id, r.file = id, f
		}
	})
	return r.id
}

func (r *Runs) name(id string) string { return filepath.Join(r.dir, id+"-"+r.host) }

// make creates and locks the local file of a run.
func (r *Runs) make(id string) (*os.File, error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil { // this fails if dir is "", so the run gets no ID
		return nil, err
	}
	if err := r.tidy(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(r.name(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if locked, err := filelock.Try(f); !locked {
		_ = f.Close()
		_ = os.Remove(r.name(id))
		return nil, errors.Join(errors.New("no lock"), err)
	}
	return f, nil
}

// tidy removes the local files of runs that ended long ago. If there are still too many files, it
// also removes the oldest files of other dead runs. It returns an error if too many runs are alive.
func (r *Runs) tidy() error {
	list, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range list {
		if fi, err := e.Info(); err == nil {
			files = append(files, fi)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	n := len(files)
	for _, fi := range files {
		if n < r.most && time.Since(fi.ModTime()) <= keepFor {
			break
		}
		if name := filepath.Join(r.dir, fi.Name()); free(name) && os.Remove(name) == nil {
			n--
		}
	}
	if n >= r.most {
		return errors.New("too many runs")
	}
	return nil
}

// free reports whether a file exists and no process has locked it.
func free(name string) bool {
	f, err := ownfile.Open(name, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	locked, err := filelock.Try(f)
	return err == nil && locked
}

// Ended reports whether a run was on this machine and has ended. It returns false for runs on other
// machines, and for runs whose local file no longer exists.
func (r *Runs) Ended(id string) bool {
	if len(id) != tempname.RunBytes || r.dir == "" {
		return false
	}
	// Without mu, two calls at the same time could each find the file locked by the other, and take
	// the run for alive.
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended[id] && free(r.name(id)) {
		r.ended[id] = true
	}
	return r.ended[id]
}

// NoteLeftover records that this run may leave a temporary file on a server. End then keeps the
// local file of this run, so that a later run can find out that this run is dead.
func (r *Runs) NoteLeftover() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
}

// End unlocks the local file of this run. It removes the file, unless NoteLeftover was called. Call
// End when no operation is in progress.
func (r *Runs) End() {
	r.begin.Do(func() {})
	if r.file == nil {
		return
	}
	_ = r.file.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.left {
		_ = os.Remove(r.name(r.id))
	}
}
