package fileops

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
)

// A ChmodConfig says what haul chmod changes and prints.
type ChmodConfig struct {
	Mode      Mode
	Recursive bool // change directories with everything in them
	Verbose   bool // print the names of changed files
}

// A permit is one execution of haul chmod.
type permit struct {
	ChmodConfig
	problems
	walk
	out  io.Writer
	name func(string) string // formats names for output
}

// Chmod changes the permissions of files at locations.
func Chmod(ctx context.Context, s *remote.Servers, at []remote.Location, cfg ChmodConfig, out io.Writer) error {
	p := &permit{ChmodConfig: cfg, out: out, name: console.NameFormat(out)}
	for _, l := range at {
		c, list, errs := entries(ctx, s, l, true) // follow symbolic links that the user named
		if c != nil && c.Capabilities().NoModes {
			return lacks("chmod", l, "set permissions")
		}
		p.failed(errs...)
		for _, e := range list {
			inside := p.Recursive && e.IsDir()
			// -R does not enter a symbolic link that was typed without a final slash. That is not a
			// failure: err is nil then.
			if named, err := c.Lstat(ctx, e.path); inside && (err != nil || named.Mode().Type() == fs.ModeSymlink && !l.IsDirName()) {
				p.failed(failure.Remote.Wrap(err))
				inside = false
			}
			p.change(ctx, c, e, inside, 0)
		}
	}
	return p.err()
}

// change changes the permissions of an entry and, if `inside` is set, of everything in it. If a
// directory loses read or execute bits, its contents are changed before the directory itself,
// because afterwards haul could lack the right to reach them. Otherwise the directory comes first,
// because haul may need its new bits to reach the contents.
func (p *permit) change(ctx context.Context, c remote.Server, e entry, inside bool, depth int) {
	const enter = readAll | executeIt
	old := console.UnixBits(e.Mode())
	last := inside && old&^p.Mode.apply(old, true)&enter != 0
	if !last {
		p.set(ctx, c, []entry{e})
	}
	if inside {
		p.below(ctx, c, e.path, depth)
	}
	if last {
		p.set(ctx, c, []entry{e})
	}
}

// below changes the permissions of everything in a directory. It skips symbolic links, because they
// have no permissions, and does not follow them.
func (p *permit) below(ctx context.Context, c remote.Server, dir string, depth int) {
	list, errs := p.list(ctx, c, dir, depth, true)
	p.failed(errs...)
	var files, dirs []entry
	for _, e := range list {
		switch {
		case e.IsDir():
			dirs = append(dirs, e)
		case !isLink(e):
			files = append(files, e)
		}
	}
	p.set(ctx, c, files)
	for _, e := range dirs {
		if !p.over(c) {
			p.change(ctx, c, e, true, depth+1)
		}
	}
}

// set changes the permissions of those entries in the list that do not have the wanted permissions
// yet.
func (p *permit) set(ctx context.Context, c remote.Server, list []entry) {
	if p.over(c) {
		return
	}
	done, errs := make([]bool, len(list)), make([]error, len(list))
	ask(list, func(entry) bool { return ctx.Err() == nil }, func(i int, e entry) {
		done[i], errs[i] = p.setOne(ctx, c, e)
	})
	if ctx.Err() != nil {
		p.failed(context.Cause(ctx))
		p.ended = true
	}
	for i, e := range list {
		p.failed(failure.Remote.Wrap(errs[i]))
		p.lose(c, errs[i])
		if done[i] && p.Verbose {
			if _, err := fmt.Fprintln(p.out, p.name(e.path)); err != nil {
				p.failed(failure.Local.Errorf("write the names: %w", err))
				p.Verbose = false
			}
		}
	}
}

func (p *permit) setOne(ctx context.Context, c remote.Server, e entry) (changed bool, err error) {
	mode := e.Mode()
	if mode&fs.ModeIrregular != 0 { // the listing did not report the mode
		fi, err := c.Lstat(ctx, e.path)
		if err != nil || fi.Mode().Type() == fs.ModeSymlink {
			return false, err
		}
		mode = fi.Mode()
	}
	old := console.UnixBits(mode)
	bits := p.Mode.apply(old, mode.IsDir())
	if bits == old {
		return false, nil
	}
	mode = fileMode(bits)
	return true, c.SetAttr(ctx, e.path, store.Attr{Mode: &mode}, true)
}
