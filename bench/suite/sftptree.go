package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

// These constants describe the directories with many small files.
const (
	treeDir  = "tree" // name of the directory with the files to move
	treeDirs = 10     // number of directories in treeDir, with equal numbers of files
	gotDir   = "got"  // name of the directory for the files that a client downloads

	// treeTime is the time after which a client is stopped that has not moved all files. A client
	// that moves 10,000 files one by one would take a quarter of an hour at 20 ms.
	treeTime = 45 * time.Second
)

// makeTree writes the scenario's files below a directory.
func (st *stage) makeTree(ctx context.Context, dir string) error {
	l := st.sc.Load
	for i := range treeDirs {
		sub := filepath.Join(dir, treeDir, "d"+strconv.Itoa(i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return fmt.Errorf("make files: %w", err)
		}
		_, err := st.haul(ctx, "bench", "files", sub, "--size", strconv.FormatInt(l.Size, 10),
			"--count", strconv.Itoa(l.Transfers/treeDirs), "--name", fmt.Sprintf("d%d-{}", i))
		if err != nil {
			return err
		}
	}
	return nil
}

// sftpTree is an act: a program moves a directory, for at most treeTime. The files that have
// arrived by then count.
func sftpTree(ctx context.Context, st *stage, _ bool) (tally, error) {
	j := st.sftpJob()
	var from, to string
	if st.sc.Write {
		from, to = filepath.Join(st.local, treeDir), filepath.Join(st.root, uploadPrefix+treeDir)
		j.Local, j.Remote = from, st.pair.Server.At(st.root, uploadPrefix+treeDir)
	} else {
		from, to = filepath.Join(st.root, treeDir), filepath.Join(st.local, gotDir)
		j.Local, j.Remote = to, st.pair.Server.At(st.root, treeDir)
	}
	if err := os.Mkdir(to, 0o777); err != nil {
		return tally{}, fmt.Errorf("make a directory for what comes: %w", err)
	}
	defer func() { _ = os.RemoveAll(to) }() // if this fails, the stage removes it later
	limited, cancel := context.WithTimeout(ctx, treeTime)
	defer cancel()
	s, err := st.sftpRun(limited, j)
	late := errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil
	if err != nil && !late {
		return tally{}, err
	}
	files, failed := count(from, to)
	if failed != nil {
		return tally{}, failed
	}
	if !late && files != st.sc.Transfers {
		return tally{}, fmt.Errorf("%d of %d files have come, and it says no word", files, st.sc.Transfers)
	}
	t := s.tally(float64(files), float64(files)*float64(st.sc.Size))
	t.figures[record.FileRate] = float64(files) / s.Wall.Seconds()
	if late {
		t.warnings = append(t.warnings, fmt.Sprintf("stopped after %v, with %d of %d files moved", treeTime, files, st.sc.Transfers))
	}
	return t, nil
}

// count returns how many files below the directory `to` are complete copies of files below `from`.
// It returns an error if a file of full length has other content.
func count(from, to string) (int, error) {
	files := 0
	err := filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.Join(filepath.Base(filepath.Dir(path)), e.Name())
		want, err := os.ReadFile(filepath.Join(from, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // the client's temporary file, which is not counted
			return nil
		case err != nil:
			return err
		case bytes.Equal(got, want):
			files++
		case len(got) >= len(want):
			return fmt.Errorf("%s differs on the two sides", name)
		}
		return nil
	})
	return files, err
}
