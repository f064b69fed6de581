package fileops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
)

// Stat prints descriptions of the files at locations.
func Stat(ctx context.Context, s *remote.Servers, at []remote.Location, follow, asJSON bool, out io.Writer) error {
	var errs []error
	for _, l := range at {
		errs = append(errs, stat(ctx, s, l, follow, asJSON, out)...)
	}
	return errors.Join(errs...)
}

func stat(ctx context.Context, s *remote.Servers, l remote.Location, follow, asJSON bool, out io.Writer) []error {
	c, list, errs := entries(ctx, s, l, follow)
	readLinks(ctx, c, list)
	owners := ownersOf(ctx, c, list)
	for _, e := range list {
		if asJSON {
			errs = append(errs, writeJSON(out, describe(e, owners))...)
			continue
		}
		errs = append(errs, printStat(out, e, owners))
	}
	return errs
}

// printStat prints an entry for people.
func printStat(out io.Writer, e entry, o owners) error {
	name := console.NameFormat(out)
	var text bytes.Buffer // collects the text, so that it is written in one call and there is at most one error
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&text, "%9s  %s\n", key, fmt.Sprintf(format, args...))
	}
	target := ""
	if e.target != "" {
		target = " -> " + name(e.target)
	}
	line("File", "%s%s", name(e.path), target)
	line("Type", "%s", console.TypeName(e.Mode()))
	if e.sized() {
		line("Size", "%d bytes (%s)", e.Size(), console.FormatBytes(e.Size()))
	}
	if e.Mode()&fs.ModeIrregular == 0 && !e.modeless {
		line("Mode", "%04o %s", console.UnixBits(e.Mode()), console.ModeString(e.Mode()))
	}
	if d, ok := store.DetailsOf(e); ok {
		line("Owner", "%s", owner(d.UID, name(o.users[d.UID])))
		line("Group", "%s", owner(d.GID, name(o.groups[d.GID])))
		if d.Links > 0 {
			line("Links", "%d", d.Links)
		}
		if !d.AccessTime.IsZero() {
			line("Accessed", "%s", d.AccessTime.Local().Format(time.RFC3339))
		}
	}
	if t := e.ModTime(); !t.IsZero() {
		line("Modified", "%s", t.Local().Format(time.RFC3339))
	}
	_, err := out.Write(text.Bytes())
	return failure.Local.Wrap(err)
}

// owner formats the ID of a user or a group, and its name if that is known.
func owner(id uint32, name string) string {
	return strings.TrimSuffix(fmt.Sprintf("%d %s", id, name), " ")
}
