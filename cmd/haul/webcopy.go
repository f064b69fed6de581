package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web/webclient"
)

// replacedOnWeb reports whether an error says that a web server has another
// version of a file by now, of which what it says may be shorter.
func replacedOnWeb(err error) bool {
	return errors.Is(err, webclient.ErrChanged) || errors.Is(err, treecopy.ErrChanged)
}

// onlyHTTP refuses flags that mean nothing for files that are sent over HTTP.
func (r *copyRun) onlyHTTP() error {
	for _, f := range []struct {
		set       bool
		name, why string
	}{
		{r.preserve, "--preserve", "HTTP cannot set permissions or times"},
		{r.sparse, "--sparse", "HTTP sends every byte of a file"},
		{treecopy.Unchanged(r.unchanged) == treecopy.SizeAndTime, "--unchanged", "over HTTP a file has the time of its upload, which says nothing of its content; --unchanged=hash compares that"},
		{r.inPlace, "--in-place", "HTTP has no way to change a part of a file"},
		{r.fsync, "--fsync", "HTTP has no way to ask for that"},
		{r.links == linksFlag(treecopy.KeepLinks), "--links keep", "HTTP has no symbolic links"},
	} {
		if f.set {
			return failure.Usage.Errorf("%s: %s", f.name, f.why)
		}
	}
	return nil
}

// target returns the server as one that files are sent to: to, or several below it.
func (w webServer) target(to location, several bool) webTree {
	t := webTree{Client: w.Client}
	if several || to.isDirName() {
		t.dir = to.webName()
	}
	return t
}

// A webTree is a web server that files are sent to. Not all of those tell what
// they have, and some know of no directories.
type webTree struct {
	*webclient.Client
	dir string // a name that the user says is a directory's; "" for none
}

// Stat takes what the server will not tell for missing: if it is there, the PUT
// will tell.
func (t webTree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == t.dir {
		return assumedDir(path.Base(name)), nil
	}
	fi, err := t.Client.Stat(ctx, name)
	if err != nil && !errors.Is(err, webclient.ErrLogin) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported)) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fi, err
}

// Lstat is Stat.
func (t webTree) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return t.Stat(ctx, name)
}

// An assumedDir is a directory that is said to be there.
type assumedDir string

func (d assumedDir) Name() string     { return string(d) }
func (assumedDir) Size() int64        { return 0 }
func (assumedDir) Mode() fs.FileMode  { return fs.ModeDir | 0o755 }
func (assumedDir) ModTime() time.Time { return time.Time{} }
func (assumedDir) IsDir() bool        { return true }
func (assumedDir) Sys() any           { return nil }
