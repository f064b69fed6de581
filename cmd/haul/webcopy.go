package main

import (
	"errors"

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
