package store

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store/internal/rules"
)

// wellKnown is the only visible name with a leading dot. In this directory, clients look for
// information about a site (RFC 8615).
const wellKnown = ".well-known"

// errHidden is the error for creating a file under a hidden name.
var errHidden error = hiddenError{}

// A hiddenError has a text that may be sent to clients.
type hiddenError struct{}

func (e hiddenError) Error() string   { return fmt.Sprintf("%v: %s", e.Unwrap(), e.ForClient()) }
func (hiddenError) Unwrap() error     { return fs.ErrPermission }
func (hiddenError) ForClient() string { return "names that begin with a dot are not served" }

var errVisible = fmt.Errorf("%w: the view is for whole files only", fs.ErrPermission)

// Visible returns t without the names that begin with a dot, and without everything below such
// directories. ".well-known" (RFC 8615) is an exception. A hidden name is not listed; using it
// returns [fs.ErrNotExist], and creating it returns [fs.ErrPermission]. A symbolic link whose own
// name is visible is followed, even if it leads to a hidden file.
//
// Files can be created and removed. Every other change returns [fs.ErrPermission].
func Visible(t Tree) Tree { return visible{refusing{t, errVisible}, isHidden, errHidden} }

// A visible is a view of a Tree without its hidden names. Visible and Finished return such a view.
type visible struct {
	refusing
	hidden func(name string) bool
	taken  error // the error for creating a file under a hidden name
}

// isHidden reports whether an element of a name begins with a dot, or would begin with one on a
// file system that ignores invisible characters. The root, ".", and wellKnown are not hidden.
func isHidden(name string) bool {
	if name == "." {
		return false
	}
	for {
		element, rest, more := name, "", false
		if i := strings.IndexAny(name, `/\`); i >= 0 {
			element, rest, more = name[:i], name[i+1:], true
		}
		shown := strings.TrimLeftFunc(element, func(r rune) bool { return tempname.Plain(r) < 0 })
		if strings.HasPrefix(shown, ".") && element != wellKnown {
			return true
		}
		if !more {
			return false
		}
		name = rest
	}
}

// see returns fs.ErrNotExist if the name is hidden.
func (v visible) see(op, name string) error {
	if v.hidden(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return nil
}

// Capabilities keeps, of the capabilities that use content or change files, only OpenUpload and
// RemoveIf.
func (v visible) Capabilities() Capabilities {
	c := v.refusing.Capabilities()
	c.OpenUpload = CapabilitiesOf(v.tree).OpenUpload
	c.RemoveIf = v.removeIf
	return c
}

func (v visible) removeIf(ctx context.Context, name string, was fs.FileInfo) error {
	if err := v.see("remove", name); err != nil {
		return err
	}
	return RemoveIf(ctx, v.tree, name, was)
}

func (v visible) Open(ctx context.Context, name string) (File, error) {
	if err := v.see("open", name); err != nil {
		return nil, err
	}
	return v.tree.Open(ctx, name)
}

func (v visible) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := v.see("stat", name); err != nil {
		return nil, err
	}
	return v.tree.Stat(ctx, name)
}

func (v visible) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := v.see("lstat", name); err != nil {
		return nil, err
	}
	return v.tree.Lstat(ctx, name)
}

func (v visible) Readlink(ctx context.Context, name string) (string, error) {
	if err := v.see("readlink", name); err != nil {
		return "", err
	}
	return v.tree.Readlink(ctx, name)
}

func (v visible) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if err := v.see("readdir", name); err != nil {
		return nil, err
	}
	entries, err := v.tree.ReadDir(ctx, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return v.hidden(e.Name()) }), err
}

func (v visible) OpenDir(ctx context.Context, name string) (Entries, error) {
	if err := v.see("readdir", name); err != nil {
		return nil, err
	}
	entries, err := v.tree.OpenDir(ctx, name)
	if err != nil {
		return nil, err
	}
	return filter{entries, func(fi fs.FileInfo) bool { return v.hidden(fi.Name()) }}, nil
}

func (v visible) Create(ctx context.Context, name string, c Create) (Upload, error) {
	if v.hidden(name) {
		return nil, &fs.PathError{Op: "create", Path: name, Err: v.taken}
	}
	return v.tree.Create(ctx, name, c)
}

func (v visible) Remove(ctx context.Context, name string) error {
	if err := v.see("remove", name); err != nil {
		return err
	}
	return v.tree.Remove(ctx, name)
}

func (v visible) Space(ctx context.Context, name string) (Space, error) {
	if err := v.see("statfs", name); err != nil {
		return Space{}, err
	}
	return v.tree.Space(ctx, name)
}

func (v visible) OpenFile(ctx context.Context, name string, a Access) (Handle, error) {
	if err := v.see("open", name); err != nil {
		return nil, err
	}
	if a.Writes() {
		return nil, v.refuse("open", name)
	}
	return v.tree.OpenFile(ctx, name, a)
}

func (v visible) Mkdir(_ context.Context, name string, _ fs.FileMode) error {
	return v.refuse("mkdir", name)
}

// A filter is an open directory that omits hidden entries.
type filter struct {
	Entries
	hidden func(fi fs.FileInfo) bool
}

// Next returns 0 entries only after the last one, as [Entries] requires, and so may have to read
// several times.
func (f filter) Next(into []fs.FileInfo) (int, error) {
	for {
		n, err := f.Entries.Next(into)
		kept := slices.DeleteFunc(into[:n], f.hidden)
		if len(kept) > 0 || err != nil || len(into) == 0 {
			return len(kept), err
		}
	}
}

// isUnfinished reports whether the last element of a name is the temporary name of a file that an
// SFTP client of haul is uploading, or of the record beside it. The record has to be hidden too,
// because it contains the file's temporary name, and [UploadOnly] and [CreateOnly] treat a client
// that knows that name as the file's owner.
func isUnfinished(name string) bool {
	return tempname.May(name, tempname.Upload, tempname.Record)
}

// Finished returns t without the files that SFTP clients of haul are uploading, and without the
// records of these uploads. Such names are not listed, and using them returns [fs.ErrNotExist]. Finished
// is for users who only read: a user who sees such a name could claim the upload as their own.
// Uploads by other means are never visible before they are finished.
//
// Files can be created and removed. Every other change returns [fs.ErrPermission].
func Finished(t Tree) Tree { return visible{refusing{t, errVisible}, isUnfinished, rules.ErrReserved} }
