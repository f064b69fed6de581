package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store"
)

func newStat() *cobra.Command {
	var f sshFlags
	var w webFlags
	var asJSON, follow bool
	cmd := &cobra.Command{
		Use:   "stat LOCATION...",
		Short: "Describe files on a server",
		Long: `Describe the file at each location on an SFTP or a web server.

haul prints type, size, permissions, owner, times, and where a symbolic link leads, as
far as the server reports them.`,
		Example:     "  haul stat host:images/disk.raw\n  haul stat --json sftp://backup@192.0.2.1/srv/a | jq .size",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("json dereference batch identity jump port", "locations", "patterns", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				var errs []error
				for _, l := range list {
					errs = append(errs, stat(ctx, s, l, follow, asJSON, cmd.OutOrStdout()))
				}
				return errors.Join(errs...)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each location")
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "describe what a symbolic link leads to")
	addServers(cmd, &f, &w)
	return cmd
}

// stat describes what is at a location.
func stat(ctx context.Context, s *remote.Servers, l remote.Location, follow, asJSON bool, out io.Writer) error {
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
	return errors.Join(errs...)
}

// printStat describes an entry for people.
func printStat(out io.Writer, e listed, o owners) error {
	name := console.NameFormat(out)
	var text bytes.Buffer // written at once, as one failure is enough
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

// owner shows a user or a group, which may have no name.
func owner(id uint32, name string) string {
	return strings.TrimSuffix(fmt.Sprintf("%d %s", id, name), " ")
}

func newDf() *cobra.Command {
	var f sshFlags
	var human, asJSON bool
	cmd := &cobra.Command{
		Use:   "df LOCATION...",
		Short: "Show how much room there is on an SFTP server",
		Long: `Show how much room there is on the file system of each location.

haul prints the size, and how much is used and free, in KiB or with -h in larger
units. The server needs the extension statvfs@openssh.com, which OpenSSH and haul
have.`,
		Example:     "  haul df -h host:/srv",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("human-readable json batch identity jump port", "locations", "sizes", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, nil, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				var errs []error
				var rows [][]string
				out := cmd.OutOrStdout()
				for _, l := range list {
					room, err := space(ctx, s, l)
					switch {
					case err != nil:
						errs = append(errs, err)
					case asJSON:
						errs = append(errs, writeJSON(out, spaceJSON(l, room))...)
					default:
						rows = append(rows, spaceRow(l, room, human, console.NameFormat(out)))
					}
				}
				if len(rows) > 0 {
					errs = append(errs, printSpace(out, rows, human))
				}
				return errors.Join(errs...)
			})
		},
	}
	humanFlag(cmd, &human, "show sizes as 1.5G")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each location, with sizes in bytes")
	f.add(cmd)
	return cmd
}

// space returns how much room there is at a location.
func space(ctx context.Context, s *remote.Servers, l remote.Location) (store.Space, error) {
	c, name, err := s.At(ctx, l)
	if err != nil {
		return store.Space{}, err
	}
	teller, ok := c.(remote.SpaceTeller)
	if !ok {
		return store.Space{}, lacks("df", l, "tell how much room there is")
	}
	room, err := teller.Space(ctx, name)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("df %v: the server does not report its size; it lacks statvfs@openssh.com: %w", l, err)
	}
	return room, failure.Remote.Wrap(err)
}

// A spaceDescribed is a file system as JSON says it, in bytes.
type spaceDescribed struct {
	Location  string `json:"location"`
	Total     int64  `json:"total"`
	Used      int64  `json:"used"`
	Free      int64  `json:"free"`
	Available int64  `json:"available"`
	Files     int64  `json:"files,omitempty"`
	FreeFiles int64  `json:"free_files,omitempty"`
	ReadOnly  bool   `json:"read_only,omitempty"`
}

func spaceJSON(l remote.Location, s store.Space) spaceDescribed {
	return spaceDescribed{
		Location: l.Text, Total: s.Total, Used: s.Total - s.Free, Free: s.Free, Available: s.Available,
		Files: s.Files, FreeFiles: s.FreeFiles, ReadOnly: s.ReadOnly,
	}
}

// spaceRow returns what df prints of a location.
func spaceRow(l remote.Location, s store.Space, human bool, name func(string) string) []string {
	size := func(n int64) string {
		if human {
			return console.HumanSize(n)
		}
		return strconv.FormatInt(n/1024, 10)
	}
	used := s.Total - s.Free
	share := "-"
	if most := used + s.Available; most > 0 {
		share = fmt.Sprintf("%d%%", int64(math.Ceil(100*float64(used)/float64(most)))) // of what users can have, as df says it
	}
	return []string{size(s.Total), size(used), size(s.Available), share, name(l.Text)}
}

func printSpace(out io.Writer, rows [][]string, human bool) error {
	head := "KiB"
	if human {
		head = "Size"
	}
	rows = append([][]string{{head, "Used", "Avail", "Use%", "Location"}}, rows...)
	widths := console.ColumnWidths(rows)
	var text bytes.Buffer
	for _, r := range rows {
		fmt.Fprintf(&text, "%*s %*s %*s %*s %s\n", widths[0], r[0], widths[1], r[1], widths[2], r[2], widths[3], r[3], r[4])
	}
	_, err := out.Write(text.Bytes())
	return failure.Local.Wrap(err)
}
