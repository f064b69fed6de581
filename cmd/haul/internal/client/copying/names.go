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

// A typedSource is a source of a copy, with the words of the command line for it.
type typedSource struct {
	text  string // as it was typed
	isURL bool
	name  string                   // in its tree
	as    string                   // below a directory of the target
	at    func(name string) string // names in its tree as they could be typed
}

// sourceNames are the sources of a copy, by the words of the command line.
type sourceNames struct {
	verb Verb
	list []typedSource

	// targetAt returns a name in the tree of the target as it could be typed.
	targetAt func(name string) string
	toLocal  bool // the target is on this machine
}

// of returns the source of an entry as the command line would name it.
func (n *sourceNames) of(i *treecopy.Item) string {
	s := n.list[i.Of]
	rest, ok := s.below(path.Clean(i.From))
	if !ok { // a pattern
		return s.at(i.From)
	}
	return s.join(rest)
}

// join returns what is below the source as the command line would name it.
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

// add remembers what a source of the copy was called. at returns other names in its tree
// as they could be typed.
func (n *sourceNames) add(text string, isURL bool, at func(string) string, s treecopy.Source) {
	name := path.Clean(s.Name)
	as := s.As
	if as == "" {
		as = path.Base(name)
	}
	n.list = append(n.list, typedSource{text: text, isURL: isURL, name: name, as: as, at: at})
}

// below returns what of a name in the tree comes below the source.
func (s typedSource) below(name string) (rest string, ok bool) {
	switch {
	case name == s.name:
		return "", true
	case s.name == ".":
		return name, true
	}
	return strings.CutPrefix(name, s.name+"/")
}

// failed returns an entry that a copy failed with as the command line would name
// it. It is not ok if that is not clear: trees do not tell which source an entry
// is from, and of a pattern no entry is.
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

// reword puts the words of the command line into the error of an entry.
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

// inWords returns the error of an entry whose name the command line would give as name.
func (n *sourceNames) inWords(name string, e *treecopy.EntryError) error {
	return failure.Reword(n.text(name, e), e)
}

// text says which entry failed, and why.
func (n *sourceNames) text(name string, e *treecopy.EntryError) string {
	return fmt.Sprintf("%s %s: %s", n.verb, console.Visible(name), n.inTarget(e.Err, e.To, reason(e.Err)))
}

// inTarget puts the directory of the target in front of the name of a local file: trees
// name their files without it. to is the name in the target, or "" if it is the file's.
func (n *sourceNames) inTarget(err error, to, text string) string {
	p, ok := errors.AsType[*fs.PathError](err)
	if !ok || !n.toLocal || remote.IsRemote(p) || to != "" && path.Base(p.Path) != path.Base(to) {
		return text
	}
	full := fs.PathError{Op: p.Op, Path: n.targetAt(path.Clean(cmp.Or(to, p.Path))), Err: p.Err}
	return strings.Replace(text, p.Error(), full.Error(), 1)
}

// reason returns why an entry failed. One lost connection fails many entries, so it is
// named instead of what each of them was doing. A failure on this machine keeps its own
// words: package sftpclient would name the operation on the server's file.
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
		return strings.Replace(err.Error(), p.Error(), p.Err.Error(), 1) // whose path is the URL again
	}
	return err.Error()
}
