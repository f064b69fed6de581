package fileops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
)

// Space prints the free space at locations: in KiB or, if `human` is set, in units that fit the
// size.
func Space(ctx context.Context, s *remote.Servers, at []remote.Location, human, asJSON bool, out io.Writer) error {
	var errs []error
	var rows [][]string
	for _, l := range at {
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
}

// space returns the free space at a location.
func space(ctx context.Context, s *remote.Servers, l remote.Location) (store.Space, error) {
	c, name, err := s.At(ctx, l)
	if err != nil {
		return store.Space{}, err
	}
	room, err := c.Space(ctx, name)
	switch {
	case errors.Is(err, errors.ErrUnsupported) && l.Protocol != remote.SFTP:
		return store.Space{}, lacks("df", l, "tell how much room there is")
	case errors.Is(err, errors.ErrUnsupported):
		err = fmt.Errorf("df %v: the server does not report its size; it lacks statvfs@openssh.com: %w", l, err)
	}
	return room, failure.Remote.Wrap(err)
}

// A spaceDescribed holds the fields for JSON of the file system at a location. All sizes are in
// bytes.
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

// spaceRow returns the columns that df prints for a location.
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
		// As in df, divide by the space that ordinary users may use, without reserved space.
		share = fmt.Sprintf("%d%%", int64(math.Ceil(100*float64(used)/float64(most))))
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
