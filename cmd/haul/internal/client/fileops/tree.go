package fileops

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// A TreeConfig says what haul tree prints.
type TreeConfig struct {
	Depth    int  // maximum depth of directories; 0 means no maximum
	All      bool // include names that begin with a dot
	DirsOnly bool
	Sizes    bool // print sizes in bytes
	Human    bool // print sizes in short form, such as 1.5M
}

// A drawing is one execution of haul tree.
type drawing struct {
	TreeConfig
	problems
	walk
	out      *bufio.Writer
	name     func(string) string // formats names for output
	detailed bool                // sizes are printed, so listings must include them

	shownDirs, shownFiles int64
}

// Tree prints directories with everything in them, as tree(1) does.
func Tree(ctx context.Context, s *remote.Servers, at []remote.Location, cfg TreeConfig, out io.Writer) error {
	d := &drawing{TreeConfig: cfg, out: bufio.NewWriterSize(out, 64<<10), name: console.NameFormat(out), detailed: cfg.Sizes || cfg.Human}
	d.flush = d.out.Flush
	for _, l := range at {
		if d.ended {
			break
		}
		c, list, errs := entries(ctx, s, l, true)
		d.failed(errs...)
		for _, e := range list {
			if !e.IsDir() {
				d.failed(failure.Remote.Errorf("tree %s: that is no directory; \"haul stat\" describes files", console.Visible(e.path)))
				continue
			}
			fmt.Fprintln(d.out, d.name(e.path))
			d.below(ctx, c, e.path, "", 1)
		}
	}
	directories := "directories"
	if d.shownDirs == 1 {
		directories = "directory"
	}
	fmt.Fprintf(d.out, "\n%d %s", d.shownDirs, directories)
	if !d.DirsOnly {
		fmt.Fprintf(d.out, ", %s", console.Plural(d.shownFiles, "file"))
	}
	fmt.Fprintln(d.out)
	d.failed(d.write())
	return d.err()
}

// below prints the contents of a directory. Each line begins with `prefix`.
func (d *drawing) below(ctx context.Context, c remote.Server, dir, prefix string, depth int) {
	list, errs := d.list(ctx, c, dir, depth, d.detailed)
	d.failed(errs...)
	list = slices.DeleteFunc(list, func(e entry) bool {
		return strings.HasPrefix(e.shown, ".") && !d.All || d.DirsOnly && !e.IsDir()
	})
	readLinks(ctx, c, list)
	for i, e := range list {
		if d.over(c) {
			return
		}
		branch, next := "├── ", "│   "
		if i == len(list)-1 {
			branch, next = "└── ", "    "
		}
		fmt.Fprint(d.out, prefix, branch, d.size(e), d.name(e.shown))
		if e.target != "" {
			fmt.Fprint(d.out, " -> ", d.name(e.target))
		}
		fmt.Fprintln(d.out)
		if !e.IsDir() {
			d.shownFiles++
			continue
		}
		d.shownDirs++
		if d.Depth == 0 || depth < d.Depth {
			d.below(ctx, c, e.path, prefix+next, depth+1)
		}
	}
}

// size returns the size of an entry in brackets, with the width that tree(1) uses.
func (d *drawing) size(e entry) string {
	switch {
	case !d.detailed:
		return ""
	case !e.sized() && d.Human:
		return fmt.Sprintf("[%4s]  ", console.Unknown)
	case !e.sized():
		return fmt.Sprintf("[%11s]  ", console.Unknown)
	case d.Human:
		return fmt.Sprintf("[%4s]  ", console.HumanSize(e.Size()))
	}
	return fmt.Sprintf("[%11d]  ", e.Size())
}
