package fileops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/internal/tempname"
)

// A LinkConfig says which links haul ln makes.
type LinkConfig struct {
	Symbolic bool
	Force    bool // replace existing files and links
	NoDeref  bool // replace a symbolic link to a directory instead of entering it
}

// Link makes links at a location. The targets are locations on the same server or, for symbolic
// links, the texts of the links. If there are several targets, the location must be a directory.
func Link(ctx context.Context, s *remote.Servers, targets []string, at remote.Location, cfg LinkConfig) error {
	c, to, err := s.At(ctx, at)
	if err != nil {
		return err
	}
	if at.Protocol != remote.SFTP {
		return lacks("ln", at, "make links")
	}
	isDir, err := linksGoInto(ctx, c, to, cfg.NoDeref)
	switch {
	case err != nil:
		return failure.Remote.Wrap(err)
	case !isDir && (len(targets) > 1 || strings.HasSuffix(to, "/")):
		return failure.Remote.Errorf("ln %v: there is no directory of that name", at)
	}
	texts := make([]string, len(targets))
	for i, target := range targets {
		if texts[i], err = linkText(ctx, s, target, at, cfg.Symbolic); err != nil {
			return err // before the first link is made
		}
	}
	var errs []error
	for _, target := range texts {
		name := to
		if isDir {
			name = below(to, path.Base(strings.TrimRight(target, "/")))
		}
		errs = append(errs, failure.Remote.Wrap(link{cfg, c}.make(ctx, target, name)))
	}
	return errors.Join(errs...)
}

// linksGoInto reports whether `name` is an existing directory, so that the links are made in it. If
// noDeref is set, a symbolic link to a directory does not count.
func linksGoInto(ctx context.Context, c remote.Server, name string, noDeref bool) (bool, error) {
	look := c.Stat
	if noDeref {
		look, name = c.Lstat, cmp.Or(strings.TrimRight(name, "/"), "/")
	}
	fi, err := look(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && fi.IsDir(), err
}

// linkText returns the text of a symbolic link or, for a hard link, the name of its target on the
// server.
func linkText(ctx context.Context, s *remote.Servers, text string, at remote.Location, symbolic bool) (string, error) {
	l, err := remote.Parse(text)
	switch {
	case symbolic && text == "":
		return "", failure.Usage.Errorf("ln -s: the text of a link is empty")
	case symbolic && err == nil && l.IsRemote():
		return "", failure.Usage.Errorf("ln -s %v: the text of a link is a path on its server, without the host; a name with a colon is ./%v", l, l)
	case symbolic && strings.IndexByte(text, 0) >= 0:
		return "", failure.Usage.Errorf("ln -s: the text of a link cannot hold a NUL")
	case symbolic:
		return text, nil
	case err != nil:
		return "", err
	case !l.IsRemote():
		return "", failure.Usage.Errorf("ln %v: that is a local file; write it as the other one, or -s for a symbolic link of that text", l)
	}
	same, err := s.Same(ctx, l, at)
	if err == nil && !same {
		err = failure.Usage.Errorf("ln: %v and %v are on different servers, and a file has names on one", l, at)
	}
	if err != nil {
		return "", err
	}
	_, name, err := s.At(ctx, l)
	return name, err
}

// A link makes links on the server c, as a LinkConfig says.
type link struct {
	LinkConfig
	c remote.Server
}

// make makes one link. If the name exists and Force is set, it makes the link under a temporary
// name and renames it. So, if the server can replace a file in one step, the name always leads to
// the old file or to the new link.
func (l link) make(ctx context.Context, target, name string) error {
	err := l.create(ctx, target, name)
	if !l.Force || !errors.Is(err, fs.ErrExist) {
		return err
	}
	old, err := l.c.Lstat(ctx, name)
	switch {
	case err != nil:
		return err
	case old.IsDir():
		return fmt.Errorf("ln: %s is a directory, and is not replaced: %w", console.Visible(name), fs.ErrExist)
	case !l.Symbolic && path.Clean(target) == path.Clean(name):
		return fmt.Errorf("ln: %s and %s are the same file", console.Visible(target), console.Visible(name))
	}
	dir, _ := path.Split(name)
	temp := dir + tempname.New(tempname.Random(), tempname.Upload)
	if err := l.create(ctx, target, temp); err != nil {
		return err
	}
	err = l.c.Rename(ctx, temp, name, true)
	if errors.Is(err, fs.ErrExist) { // the server cannot replace a file in one step
		if err = l.c.Remove(ctx, name); err == nil {
			err = l.c.Rename(ctx, temp, name, true)
		}
	}
	// If the temporary name and the old one are hard links to the same file, rename(2) does nothing.
	// So remove the temporary name, in case it still exists.
	if err != nil || !l.Symbolic {
		if e := l.c.Remove(context.WithoutCancel(ctx), temp); err == nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	return err
}

func (l link) create(ctx context.Context, target, name string) error {
	if l.Symbolic {
		return l.c.Symlink(ctx, target, name)
	}
	err := l.c.Link(ctx, target, name)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w; the server lacks hardlink@openssh.com: -s makes a symbolic link", err)
	}
	return err
}
