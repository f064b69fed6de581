package copying

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store/s3"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web/webclient"
)

// A typedSource holds the names of one source of a copy.
type typedSource struct {
	text  string // the source as the user typed it
	isURL bool
	name  string                   // name of the source in its tree
	as    string                   // name that the copy gets below the target directory
	at    func(name string) string // turns a name in the source's tree into a name that a user could type
}

// sourceNames converts names of entries of a copy to the names that the user knows from the command
// line.
type sourceNames struct {
	verb Verb
	list []typedSource

	// targetAt returns the name by which a user could type the file with this name in the target's
	// tree.
	targetAt func(name string) string
	toLocal  bool // the target is on this machine
}

// of returns the source name of an entry, as the user could have typed it.
func (n *sourceNames) of(i *treecopy.Item) string {
	s := n.list[i.Of]
	rest, ok := s.below(path.Clean(i.From))
	if !ok { // the source is a pattern
		return s.at(i.From)
	}
	return s.join(rest)
}

// join returns the name of a file below the source, in the form of the source's name on the command
// line. rest is the file's path below the source.
func (s typedSource) join(rest string) string {
	name := s.text
	if rest == "" {
		return name
	}
	if s.isURL {
		rest = (&url.URL{Path: rest}).EscapedPath()
	}
	if !strings.HasSuffix(name, "/") && !strings.HasSuffix(name, ":") {
		name += "/"
	}
	if !s.isURL && !strings.Contains(s.text, ":") {
		rest = filepath.FromSlash(rest)
	}
	return name + rest
}

// add records the name of a source on the command line. at turns other names in its tree into the
// names that a user could type.
func (n *sourceNames) add(text string, isURL bool, at func(string) string, s treecopy.Source) {
	name := path.Clean(s.Name)
	as := s.As
	if as == "" {
		as = path.Base(name)
	}
	n.list = append(n.list, typedSource{text: text, isURL: isURL, name: name, as: as, at: at})
}

// below returns the part of a name that follows the source's own name. ok is false if the name is
// not below the source.
func (s typedSource) below(name string) (rest string, ok bool) {
	switch {
	case name == s.name:
		return "", true
	case s.name == ".":
		return name, true
	}
	return strings.CutPrefix(name, s.name+"/")
}

// failed returns the source name of a failed entry, as the user could have typed it. ok is false if
// the name is not certain: an error does not say from which source the entry comes, and an entry
// that was found by a pattern is not below any source's name.
func (n *sourceNames) failed(e *treecopy.EntryError) (name string, ok bool) {
	for _, s := range n.list {
		rest, below := s.below(path.Clean(e.From))
		if !below || e.To != "" && len(n.list) > 1 && !strings.HasSuffix("/"+e.To, "/"+path.Join(s.as, rest)) {
			continue
		}
		if ok {
			return "", false
		}
		name, ok = s.join(rest), true
	}
	return name, ok
}

// reword returns an error of a copy with a text that contains the names that the user typed.
func (n *sourceNames) reword(err error) error {
	e, ok := errors.AsType[*treecopy.EntryError](err)
	if !ok {
		return failure.Reword(n.inTarget(err, "", err.Error()), err)
	}
	if e.From == "" {
		return failure.Reword(fmt.Sprintf("%s: delete %s: %s", n.verb, console.Visible(n.targetAt(e.To)), n.inTarget(e.Err, e.To, reason(e.Err))), err)
	}
	name, ok := n.failed(e)
	if !ok {
		return err
	}
	return failure.Reword(n.text(name, e), err)
}

// inWords returns the error of an entry with the text that the method text builds from the source
// name.
func (n *sourceNames) inWords(name string, e *treecopy.EntryError) error {
	return failure.Reword(n.text(name, e), e)
}

// text returns a message that says which entry failed, and why.
func (n *sourceNames) text(name string, e *treecopy.EntryError) string {
	return fmt.Sprintf("%s %s: %s", n.verb, console.Visible(name), n.inTarget(e.Err, e.To, reason(e.Err)))
}

// inTarget adds the path of the target's directory to the file name in the text of an error about a
// local file, because the errors of trees contain only the file's name in the tree. `to` is that
// name, or "" if the error itself contains it.
func (n *sourceNames) inTarget(err error, to, text string) string {
	p, ok := errors.AsType[*fs.PathError](err)
	if !ok || !n.toLocal || remote.IsRemote(p) || to != "" && path.Base(p.Path) != path.Base(to) {
		return text
	}
	full := fs.PathError{Op: p.Op, Path: n.targetAt(path.Clean(cmp.Or(to, p.Path))), Err: p.Err}
	return strings.Replace(text, p.Error(), full.Error(), 1)
}

// reason returns the reason why an entry failed, as text. If the connection was lost, many entries
// fail, so the text only says that, and not which operation failed. An error of this machine keeps
// its own text, because package sftpclient would name the operation on the server's file.
func reason(err error) string {
	for _, one := range failure.Joined(err) {
		if errors.Is(one, sftpclient.ErrConnectionLost) {
			return reason(one)
		}
	}
	if t, ok := errors.AsType[*sftpclient.TransferError](err); ok && t.Local {
		return strings.Replace(err.Error(), t.Error(), fmt.Sprintf("at byte %d: %v", t.Offset, t.Err), 1)
	}
	if t, ok := errors.AsType[*webclient.TransferError](err); ok {
		return strings.Replace(err.Error(), t.Error(), fmt.Sprintf("at byte %d: %v", t.Offset, t.Err), 1)
	}
	if t, ok := errors.AsType[*s3.TransferError](err); ok {
		return strings.Replace(err.Error(), t.Error(), fmt.Sprintf("at byte %d: %v", t.Offset, t.Err), 1)
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok && (webclient.IsRemote(err) || s3.IsRemote(err)) {
		return strings.Replace(err.Error(), p.Error(), p.Err.Error(), 1) // without the path, which repeats the URL
	}
	return err.Error()
}
