package sftpclient

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/internal/tempname"
)

const (
	// An upload counts as abandoned if nothing was written to it for sweepAfter, or for
	// sweepResumable if it can be resumed.
	sweepAfter     = 24 * time.Hour
	sweepResumable = 7 * 24 * time.Hour

	// maxSweep is the largest number of entries of a directory that removeLeftovers reads, and
	// maxSweepRecords is the largest number of upload records.
	maxSweep        = 16384
	maxSweepRecords = 64
)

// removeLeftovers removes from a directory the temporary files of uploads whose process died: files
// of a run that has ended according to Config.Runs, and files that only their owner may access and
// that were not written to for a day. Files that can be resumed stay for a week. It reads at most
// 16384 entries, and skips files that cannot be removed.
func (s *remoteTree) removeLeftovers(ctx context.Context, dir string) error {
	p, err := s.path(ctx, dir)
	if err != nil {
		return s.fail("sweep", dir, err)
	}
	old, records, err := s.leftovers(ctx, p, time.Now())
	if err != nil || len(old) == 0 {
		return s.fail("sweep", dir, err)
	}
	if len(records) > maxSweepRecords {
		return nil // reading them all would take too long
	}
	wanted := map[string]bool{}
	for _, name := range records {
		f, err := openRegular(ctx, s.c, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return s.fail("sweep", dir, err)
		}
		if r, ok, _ := recordIn(f); ok {
			wanted[tempname.New(r.File, tempname.Upload)] = true
		}
		_ = f.Close()
	}
	for _, name := range old {
		if !wanted[path.Base(name)] {
			_ = s.c.RemoveFile(ctx, name)
		}
	}
	return nil
}

// leftovers returns the temporary files in a directory that are old or belong to runs that have
// ended, and the records that are not old.
func (s *remoteTree) leftovers(ctx context.Context, dir string, now time.Time) (old, records []string, err error) {
	d, err := s.c.openDir(ctx, dir, func(name string) bool { return !isUpload(name) })
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	list := make([]fs.FileInfo, 256)
	for seen := 0; seen < maxSweep; {
		n, err := d.Next(list)
		seen += n
		for _, fi := range list[:n] {
			name := path.Join(dir, fi.Name())
			if s.c.run.hasEnded(fi) {
				old = append(old, name)
				continue
			}
			// Other users cannot create a file that only this user may access. Skip files that the
			// server does not describe.
			if !fi.Mode().IsRegular() || fi.Mode().Perm() != firstPerm || fi.ModTime().IsZero() {
				continue
			}
			age := now.Sub(fi.ModTime())
			record := tempname.Is(fi.Name(), tempname.Record)
			switch {
			case record && age < sweepResumable:
				records = append(records, name)
			case record || age >= sweepAfter:
				old = append(old, name)
			}
		}
		if err == io.EOF {
			return old, records, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, nil // entries after the first maxSweep may be records, which protect files
}
