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

// A typedSource is a source of a copy, with its name on the command line.
type typedSource struct {
	text  string // as typed
	isURL bool
	name  string                   // in its tree
	as    string                   // name below a directory of the target
	at    func(name string) string // turns a name in its tree into the name that a user could type
}

// sourceNames maps the sources of a copy to their names on the command line.
type sourceNames struct {
	verb Verb
	list []typedSource

	// targetAt turns a name in the target's tree into the name that a user could type.
	targetAt func(name string) string
	toLocal  bool // the target is on this machine
}

// of returns an entry's source, under its name on the command line.
func (n *sourceNames) of(i *treecopy.Item) string {
	s := n.list[i.Of]
	rest, ok := s.below(path.Clean(i.From))
	if !ok { // the source is a pattern
		return s.at(i.From)
	}
	return s.join(rest)
}

// join returns a name below the source as it is on the command line.
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

// below returns the part of a name in the tree that is below the source.
func (s typedSource) below(name string) (rest string, ok bool) {
	switch {
	case name == s.name:
		return "", true
	case s.name == ".":
		return name, true
	}
	return strings.CutPrefix(name, s.name+"/")
}

// failed returns the name of a failed entry as it is on the command line. ok is false if the
// name is ambiguous. Trees do not report which source an entry comes from, and an entry that a
// pattern found belongs to no source.
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

// reword rewrites the error of an entry in the words of the command line.
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

// inWords returns the error of an entry, under its name on the command line.
func (n *sourceNames) inWords(name string, e *treecopy.EntryError) error {
	return failure.Reword(n.text(name, e), e)
}

// text returns a message that says which entry failed, and why.
func (n *sourceNames) text(name string, e *treecopy.EntryError) string {
	return fmt.Sprintf("%s %s: %s", n.verb, console.Visible(name), n.inTarget(e.Err, e.To, reason(e.Err)))
}

// inTarget adds the target's directory to the name of a local file in an error, because trees leave
// the directory out. to is the name in the target, or "" if the error contains that name.
func (n *sourceNames) inTarget(err error, to, text string) string {
	p, ok := errors.AsType[*fs.PathError](err)
	if !ok || !n.toLocal || remote.IsRemote(p) || to != "" && path.Base(p.Path) != path.Base(to) {
		return text
	}
	full := fs.PathError{Op: p.Op, Path: n.targetAt(path.Clean(cmp.Or(to, p.Path))), Err: p.Err}
	return strings.Replace(text, p.Error(), full.Error(), 1)
}

// reason returns the reason why an entry failed. A lost connection makes many entries fail, so then
// the reason is the lost connection and not each entry's operation. A failure on this machine keeps
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
		return strings.Replace(err.Error(), p.Error(), p.Err.Error(), 1) // the path repeats the URL
	}
	return err.Error()
}
