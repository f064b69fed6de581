package sftpclient

import (
	"io/fs"

	"github.com/haul-project/haul/internal/tempname"
)

// Runs keeps track of the runs of a program on one machine. Its methods may be called concurrently.
type Runs interface {
	// ID returns the unique ID of this run: 13 of the characters A to Z and 2 to 7. It returns ""
	// if the run has no ID.
	ID() string

	// Ended reports whether the run with the given ID has ended. id comes from the name of a
	// temporary file, and may be any string.
	Ended(id string) bool

	// NoteLeftover records that this run may have left a temporary file.
	NoteLeftover()
}

// A run gives a Client access to Config.Runs, which may be nil.
type run struct{ runs Runs }

// newKey returns a key for the name of a temporary file of this run.
func (r run) newKey() string {
	if r.runs == nil {
		return tempname.Random()
	}
	return tempname.RandomOf(r.runs.ID())
}

// noteLeftover records that this run may have left a temporary file.
func (r run) noteLeftover() {
	if r.runs != nil {
		r.runs.NoteLeftover()
	}
}

// hasEnded reports whether an entry is the temporary file of a run that has ended. Such a file may
// have its final permissions already, so hasEnded does not check them.
func (r run) hasEnded(fi fs.FileInfo) bool {
	return r.runs != nil && fi.Mode().IsRegular() && tempname.Is(fi.Name(), tempname.Upload) &&
		r.runs.Ended(tempname.RunOf(fi.Name()))
}
