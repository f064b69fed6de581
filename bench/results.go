package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/haul-project/haul/bench/suite/record"
)

// results is the results file to which a run appends.
type results struct {
	path   string // path of the file; "" means that there is no file
	resume string // the path, if the measurements in the file are not to be repeated; otherwise ""

	whole int64 // total length of the complete lines in the file, in bytes
	fresh bool  // the file did not exist before
	file  *os.File
}

// read returns the lines of a file that is to be resumed. It changes nothing.
func (r *results) read() ([]record.Line, error) {
	if r.resume == "" {
		return nil, nil
	}
	r.path = r.resume
	lines, whole, err := record.ReadSoFar(r.path)
	switch {
	case errors.Is(err, record.ErrOldFormat):
		return nil, fmt.Errorf("--resume: %w; name a new file", err)
	case err != nil:
		return nil, fmt.Errorf("--resume: %w", err)
	}
	r.whole = whole
	return lines, nil
}

// open opens the file for appending lines, and returns it. It returns nil if there is no path.
func (r *results) open() (io.Writer, error) {
	if r.path == "" {
		return nil, nil
	}
	flag := "--out"
	if r.resume != "" {
		flag = "--resume"
	}
	_, err := os.Stat(r.path)
	r.fresh = errors.Is(err, fs.ErrNotExist)
	if r.file, err = os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if r.resume == "" {
		return r.file, nil
	}
	// A killed run may have left an incomplete line. Cut it off, because no further line may follow
	// it.
	if info, err := r.file.Stat(); err == nil && info.Size() > r.whole {
		if err := r.file.Truncate(r.whole); err != nil {
			_ = r.file.Close()
			return nil, fmt.Errorf("%s: cut off an incomplete line: %w", flag, err)
		}
	}
	return r.file, nil
}

// close closes the file, and reports whether the file is kept. If the file is new and empty, close
// removes it.
func (r *results) close() (kept bool, err error) {
	if r.file == nil {
		return false, nil
	}
	info, err := r.file.Stat()
	if closed := r.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return true, fmt.Errorf("close the results: %w", err)
	}
	if info.Size() > 0 || !r.fresh {
		return info.Size() > 0, nil
	}
	return false, os.Remove(r.path)
}
