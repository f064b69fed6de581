package fileops

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// maxSumLine is the maximum length of a line in a list of sums, in bytes. A longer line counts as
// malformed.
const maxSumLine = 64 << 10

// CheckSums compares files with lists of their sums, as sha256sum --check does. The lists are local
// files; "-" means stdin. Names in the lists are relative to the first location, if there is one.
func CheckSums(ctx context.Context, servers *remote.Servers, lists []string, at []remote.Location, cfg SumConfig, stdin io.Reader, out io.Writer) error {
	if err := cfg.check(); err != nil {
		return err
	}
	base := sumBase{place: localFiles{}, join: localBelow("")}
	if len(at) > 0 && at[0].Protocol == remote.Local {
		base.join = localBelow(at[0].Path)
	} else if len(at) > 0 {
		c, dir, err := servers.At(ctx, at[0])
		if err != nil {
			return err
		}
		base = sumBase{serverFiles{c}, func(name string) string { return serverBelow(c, dir, name) }}
	}
	s := newSummer(cfg, out)
	for _, name := range lists {
		l := sumList{name, func() (io.ReadCloser, error) { return os.Open(name) }}
		if name == "-" {
			l = sumList{"standard input", func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }}
		}
		if !s.checkList(ctx, l, base) {
			break
		}
	}
	return s.err()
}

// A sumList is a list of sums in the format of sha256sum.
type sumList struct {
	name string // the list's name, for messages
	open func() (io.ReadCloser, error)
}

// A sumBase is the location that the names in a list are relative to.
type sumBase struct {
	place sumPlace
	join  func(name string) string
}

func localBelow(dir string) func(string) string {
	return func(name string) string {
		if dir == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
}

// serverBelow returns the path of the file called `name` in the directory dir on a server. In a
// bucket or on a web server, no name leads above the root.
func serverBelow(c remote.Server, dir, name string) string {
	switch {
	case c.Capabilities().NoModes:
		return strings.TrimPrefix(path.Clean("/"+dir+"/"+name), "/")
	case strings.HasPrefix(name, "/"):
		return name
	}
	return below(dir, name)
}

// A listCheck checks the files that one list names, and counts the results.
type listCheck struct {
	*summer
	list string // the list's name for messages

	files, bad, unread, wrong, right int
}

// checkList checks the files of one list. It returns false if checking cannot continue.
func (s *summer) checkList(ctx context.Context, l sumList, base sumBase) bool {
	n := listCheck{summer: s, list: console.Visible(l.name)}
	var broken error
	work := func(j sumJob) ([]byte, error) { return s.sum(ctx, j, j.want.algorithm) }
	use := func(j sumJob, sum []byte, err error) bool { return n.compare(ctx, j, sum, err) }
	all := s.inOrder(ctx, s.lines(l, base, &broken), work, use)
	switch {
	case !all && ctx.Err() != nil:
	case all && broken != nil:
		s.failed(broken)
	default:
		n.conclude()
	}
	return all
}

// compare compares the sum of a file with the sum on its line, and prints the result. It returns
// false if checking cannot continue.
func (n *listCheck) compare(ctx context.Context, j sumJob, sum []byte, err error) bool {
	if j.bad > 0 {
		n.bad++
		if n.Warn && !n.Status {
			n.Say(fmt.Errorf("%s: %d: improperly formatted %schecksum line", n.list, j.bad, n.kind()))
		}
		return true
	}
	n.files++
	verdict := "OK"
	switch {
	case err != nil && ctx.Err() != nil:
		n.failed(err)
		return false
	case n.IgnoreMissing && errors.Is(err, fs.ErrNotExist):
		return true
	case err != nil:
		n.unread++
		verdict = "FAILED open or read"
		n.Say(err)
		n.failed(failure.Said.Wrap(err))
	case !bytes.Equal(sum, j.want.sum):
		n.wrong++
		verdict = "FAILED"
	default:
		n.right++
	}
	printed := n.Status || verdict == "OK" && n.Quiet || n.printVerdict(j.want.name, verdict)
	return printed && !remote.IsLost(err)
}

// printVerdict prints the result of checking a file, and reports whether printing succeeded.
func (s *summer) printVerdict(name, verdict string) bool {
	mark := ""
	if strings.Contains(name, "\n") { // as in sha256sum, escape only names with a line feed
		name, mark = escapeSumName(name)
	}
	return s.print(fmt.Sprintf("%s%s: %s\n", mark, s.name(name), verdict))
}

// kind returns the tag of the configured algorithm, followed by a space, for messages. It returns
// "" if no algorithm is configured.
func (s *summer) kind() string {
	if a, ok := algorithmNamed(s.Algorithm); ok {
		return a.tag + " "
	}
	return ""
}

// lines yields the lines of a list as jobs. It skips comments and empty lines.
func (s *summer) lines(l sumList, base sumBase, broken *error) iter.Seq[sumJob] {
	return func(yield func(sumJob) bool) {
		p := new(sumParser)
		if a, ok := algorithmNamed(s.Algorithm); ok {
			p.only = &a
		}
		f, err := l.open()
		if err != nil {
			*broken = failure.Local.Wrap(err)
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, maxSumLine)
		for number := 1; ; number++ {
			text, err := in.ReadSlice('\n')
			long := err == bufio.ErrBufferFull
			for err == bufio.ErrBufferFull {
				_, err = in.ReadSlice('\n')
			}
			if err != nil && err != io.EOF {
				*broken = failure.Local.Errorf("read %s: %w", console.Visible(l.name), err)
				return
			}
			line := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
			if long || line != "" && line[0] != '#' {
				j := sumJob{place: base.place, bad: number}
				if want, ok := p.parse(line); ok && !long {
					j = sumJob{place: base.place, name: base.join(want.name), want: want}
				}
				if !yield(j) {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// conclude prints warnings about the whole list, in the same words as sha256sum.
func (n *listCheck) conclude() {
	if n.files == 0 {
		n.failed(fmt.Errorf("%s: no properly formatted checksum lines found", n.list))
		return
	}
	warn := func(count int, one, several string) {
		switch {
		case count == 0 || n.Status:
		case count == 1:
			n.Say(fmt.Errorf("WARNING: 1 %s", one))
		default:
			n.Say(fmt.Errorf("WARNING: %d %s", count, several))
		}
	}
	warn(n.bad, "line is improperly formatted", "lines are improperly formatted")
	warn(n.unread, "listed file could not be read", "listed files could not be read")
	warn(n.wrong, "computed checksum did NOT match", "computed checksums did NOT match")
	none := n.IgnoreMissing && n.right == 0
	if none && !n.Status {
		n.Say(fmt.Errorf("%s: no file was verified", n.list))
	}
	if none || n.wrong > 0 || n.Strict && n.bad > 0 {
		n.failed(failure.Said.Wrap(errUnverified))
	}
}

// errUnverified reports that checking a list has failed: a sum does not match, no file was verified
// or, with Strict, a line is malformed.
var errUnverified = errors.New("not all files could be verified")
