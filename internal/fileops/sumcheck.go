package fileops

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
)

// maxSumLine is how many bytes a line of a list of sums may have. One that is longer is a
// bad line.
const maxSumLine = 64 << 10

// CheckSums compares files with lists of their sums, as sha256sum --check does: files of this
// machine, of which - is stdin. The names in them are below the first location, or as they are
// where there is none.
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
	return s.flush()
}

// A sumList is a list of sums, as sha256sum writes it.
type sumList struct {
	name string // for messages
	open func() (io.ReadCloser, error)
}

// A sumBase is what the names in a list are below.
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

// serverBelow returns a name on a server. No name leads out of a bucket or a web server.
func serverBelow(c remote.Server, dir, name string) string {
	switch {
	case !c.HasModes():
		return strings.TrimPrefix(path.Clean("/"+dir+"/"+name), "/")
	case strings.HasPrefix(name, "/"):
		return name
	}
	return below(dir, name)
}

// checked counts what became of a list.
type checked struct{ lines, bad, unread, wrong, right int }

// checkList checks the files of one list. It returns false if nothing more can be checked.
func (s *summer) checkList(ctx context.Context, l sumList, base sumBase) bool {
	var n checked
	var broken error
	all := s.inOrder(ctx, s.lines(l, base, &broken), func(j sumJob) ([]byte, error) { return s.sum(ctx, j, j.want.algorithm) }, func(j sumJob, sum []byte, err error) bool {
		if j.bad > 0 {
			n.bad++
			if s.Warn && !s.Status {
				s.Say(fmt.Errorf("%s: %d: improperly formatted %schecksum line", console.Visible(l.name), j.bad, s.kind()))
			}
			return true
		}
		n.lines++
		verdict := "OK"
		switch {
		case err != nil && ctx.Err() != nil:
			s.failed(err)
			return false
		case isMissing(err) && s.IgnoreMissing:
			return true
		case err != nil:
			n.unread++
			verdict = "FAILED open or read"
			s.Say(err)
			s.failed(failure.Said.Wrap(err))
		case !bytes.Equal(sum, j.want.sum):
			n.wrong++
			verdict = "FAILED"
		default:
			n.right++
		}
		if !s.Status && (verdict != "OK" || !s.Quiet) {
			name, mark := j.want.name, ""
			if strings.Contains(name, "\n") { // else all stays as it is, as with sha256sum
				name, mark = escapeName(name)
			}
			_, e := fmt.Fprintf(s.out, "%s%s: %s\n", mark, s.name(name), verdict)
			return e == nil && !remote.IsLost(err)
		}
		return !remote.IsLost(err)
	})
	switch {
	case !all && ctx.Err() != nil:
	case all && broken != nil:
		s.failed(broken)
	default:
		s.conclude(l.name, n)
	}
	return all
}

// kind names the algorithm that messages are about, if it is said.
func (s *summer) kind() string {
	if a, ok := algorithmNamed(s.Algorithm); ok {
		return a.tag + " "
	}
	return ""
}

// lines returns the lines of a list as jobs. Comments and empty lines are none.
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

// conclude sums up a list in the words of sha256sum.
func (s *summer) conclude(list string, n checked) {
	if n.lines == 0 {
		s.failed(fmt.Errorf("%s: no properly formatted checksum lines found", console.Visible(list)))
		return
	}
	warn := func(n int, one, several string) {
		switch {
		case n == 0 || s.Status:
		case n == 1:
			s.Say(fmt.Errorf("WARNING: 1 %s", one))
		default:
			s.Say(fmt.Errorf("WARNING: %d %s", n, several))
		}
	}
	warn(n.bad, "line is improperly formatted", "lines are improperly formatted")
	warn(n.unread, "listed file could not be read", "listed files could not be read")
	warn(n.wrong, "computed checksum did NOT match", "computed checksums did NOT match")
	none := s.IgnoreMissing && n.right == 0
	if none && !s.Status {
		s.Say(fmt.Errorf("%s: no file was verified", console.Visible(list)))
	}
	if none || n.wrong > 0 || s.Strict && n.bad > 0 {
		s.failed(failure.Said.Wrap(errUnverified))
	}
}

// errUnverified says that some files are not as a list has them.
var errUnverified = errors.New("not all files could be verified")
