package store

import (
	"context"
	"io/fs"
	"slices"
	"sync"
)

const (
	// maxOwnFiles and maxOwnDirs bound the memory, in bytes, that a drop box uses to remember the
	// names that its user made. They are enough for some thousands of names. Clients soon finish
	// with a file, but set the times of a directory only after they have filled it, so directories
	// get more memory.
	maxOwnFiles = 256 << 10
	maxOwnDirs  = 1 << 20

	// ownCost is the memory, in bytes, that is counted for each remembered name in addition to its
	// text.
	ownCost = 256
)

// UploadOnly returns t as a drop box: its user can add files, but cannot read or damage existing
// ones, and sees few of their names.
//
//   - The user can add files and directories under free names: with Create, which is always
//     exclusive, with OpenFile and Access.Create, and with Mkdir.
//   - The user can finish a file or a directory that was made through this view and still has its
//     name, because some clients upload under a temporary name first: the user can open the file
//     again for writing, rename it to a free name, remove it, remove the directory if it is empty,
//     and set all attributes except for the owner. The view forgets the oldest names when there are
//     very many.
//   - A directory can be listed, but the list contains only its subdirectories. This is for clients
//     that list their current directory.
//   - A client that knows a name can call Stat and Lstat for it: many do this after they have sent
//     a file.
//
// Any other call returns [fs.ErrPermission]. A change of a file that does not exist returns
// [fs.ErrNotExist], as Lstat does.
//
// Give each user a separate view. A client with several connections has several views, and one view
// does not know what another one made. Therefore a client can also be recognized by a name that
// only the maker of the file can know: if one of the functions in secret returns true for a name, a
// client that uses that name counts as the maker of its file.
func UploadOnly(t Tree, secret ...func(name string) bool) Tree {
	return newUploadOnly(t, secret)
}

func newUploadOnly(t Tree, secret []func(name string) bool) *uploadOnly {
	return &uploadOnly{
		refusing: refusing{t, errUploadOnly},
		of:       CapabilitiesOf(t),
		secret:   secret,
		files:    ownNames{limit: maxOwnFiles},
		dirs:     ownNames{limit: maxOwnDirs},
	}
}

// CreateOnly returns t without the right to change or remove existing files. Users can add files
// and directories as with [UploadOnly], and can list and read everything, with one exception: files
// that [Finished] hides are not listed, and only their makers can read them.
func CreateOnly(t Tree, secret ...func(name string) bool) Tree {
	u := newUploadOnly(t, secret)
	u.reads, u.reason = true, errCreateOnly
	return u
}

type uploadOnly struct {
	refusing
	of    Capabilities // capabilities of the tree, without the view's restrictions
	reads bool         // users may read and list existing files
	// secret holds functions that report whether only the maker of a file can know its name.
	secret []func(name string) bool

	mu          sync.Mutex
	files, dirs ownNames // files and directories that were made through the view; guarded by mu
}

// ownNames remembers which files were made through the view, by their names. Beyond its limit, it
// forgets the oldest.
type ownNames struct {
	limit int // largest memory for the names, in bytes
	used  int // memory for the names now, in bytes; see ownCost
	is    map[string]ownFile
	order []string // names, the oldest first; may contain names that are no longer in `is`
}

// An ownFile identifies a file or a directory that was made through the view.
type ownFile struct {
	info  fs.FileInfo
	birth Birth
}

func (o *ownNames) add(name string, f ownFile) {
	if o.is == nil {
		o.is = map[string]ownFile{}
	}
	if _, ok := o.is[name]; !ok {
		o.order = append(o.order, name)
		o.used += ownCost + len(name)
	}
	o.is[name] = f
	for o.used > o.limit {
		first := o.order[0]
		o.order = o.order[1:]
		o.used -= ownCost + len(first)
		delete(o.is, first)
	}
}

// describe identifies the file that has the name now. fi is its description by Lstat.
func (u *uploadOnly) describe(name string, fi fs.FileInfo) ownFile {
	f := ownFile{info: fi}
	if u.of.Birth != nil {
		f.birth = u.of.Birth(name)
	}
	return f
}

// note records a name as made through the view.
func (u *uploadOnly) note(name string, fi fs.FileInfo) {
	f := u.describe(name, fi)
	u.mu.Lock()
	defer u.mu.Unlock()
	if fi.IsDir() {
		u.dirs.add(name, f)
	} else {
		u.files.add(name, f)
	}
}

// made records a name that was created just now. If its file cannot be described, nothing is
// recorded, and the file then belongs to nobody.
func (u *uploadOnly) made(ctx context.Context, name string) {
	if fi, err := u.tree.Lstat(context.WithoutCancel(ctx), name); err == nil {
		u.note(name, fi)
	}
}

// own returns nil if the file of that name was made through this view, or if its name is secret.
// With dirs, it accepts directories too. It returns fs.ErrNotExist if there is no such file.
func (u *uploadOnly) own(ctx context.Context, op, name string, dirs bool) error {
	fi, err := u.tree.Lstat(ctx, name)
	if err != nil {
		return err
	}
	if fi.Mode().IsRegular() {
		for _, known := range u.secret {
			if known(name) {
				return nil
			}
		}
	}
	u.mu.Lock()
	then, ok := u.files.is[name]
	if dirs && fi.IsDir() {
		then, ok = u.dirs.is[name]
	}
	u.mu.Unlock()
	if !ok || then.info.Mode().Type() != fi.Mode().Type() || !then.isStill(u.describe(name, fi)) {
		return u.refuse(op, name)
	}
	return nil
}

// isStill reports whether `now` describes the same file as f. Only files of a directory or of [Mem]
// have an identity that can be compared; for files of other stores, isStill returns true.
func (f ownFile) isStill(now ownFile) bool {
	if SameFile(f.info, now.info) {
		return f.birth == now.birth
	}
	_, mem := f.info.(memInfo)
	_, other := f.info.Sys().(Details)
	return other && !mem
}

// Capabilities adds OpenUpload for a view whose users may read.
func (u *uploadOnly) Capabilities() Capabilities {
	c := u.refusing.Capabilities()
	if u.reads {
		c.OpenUpload = u.of.OpenUpload
	}
	return c
}

func (u *uploadOnly) Open(ctx context.Context, name string) (File, error) {
	if err := u.read(ctx, "open", name); err != nil {
		return nil, err
	}
	return u.tree.Open(ctx, name)
}

func (u *uploadOnly) Create(ctx context.Context, name string, c Create) (Upload, error) {
	c.Exclusive = true
	up, err := u.tree.Create(ctx, name, c)
	if err != nil {
		return nil, err
	}
	return ownUpload{up, u, context.WithoutCancel(ctx), name}, nil
}

// An ownUpload records, when it is committed, that its file was made through the view.
type ownUpload struct {
	Upload
	view *uploadOnly
	ctx  context.Context
	name string
}

// Unwrap is for [As].
func (o ownUpload) Unwrap() any { return o.Upload }

func (o ownUpload) Commit() error {
	err := o.Upload.Commit()
	if err == nil {
		o.view.made(o.ctx, o.name)
	}
	return err
}

func (u *uploadOnly) OpenFile(ctx context.Context, name string, a Access) (Handle, error) {
	switch {
	case u.reads && !a.Writes():
		if err := u.read(ctx, "open", name); err != nil {
			return nil, err
		}
		return readOnly{u.refusing}.OpenFile(ctx, name, a)
	case !u.reads && a.Read, !a.Writes():
		return nil, u.refuse("open", name)
	}
	if err := a.Check(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	notOwn := u.own(ctx, "open", name, false)
	again := !a.Exclusive && notOwn == nil
	switch {
	case again:
		a.Create = false // by now the name might belong to another user's file
	case a.Create:
		a.Exclusive = true
	default:
		return nil, notOwn
	}
	h, err := u.tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	if fi, err := h.Stat(); err == nil && !again {
		u.note(name, fi)
	}
	return uploadHandle{h, u, name}, nil
}

func (u *uploadOnly) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	err := u.tree.Mkdir(ctx, name, perm)
	if err == nil {
		u.made(ctx, name)
	}
	return err
}

func (u *uploadOnly) Remove(ctx context.Context, name string) error {
	if err := u.own(ctx, "remove", name, false); err != nil {
		return err
	}
	return u.tree.Remove(ctx, name)
}

func (u *uploadOnly) RemoveDir(ctx context.Context, name string) error {
	if err := u.own(ctx, "rmdir", name, true); err != nil {
		return err
	}
	return u.tree.RemoveDir(ctx, name)
}

// Rename refuses directories, because a directory may hold files of other users.
func (u *uploadOnly) Rename(ctx context.Context, from, to string, _ bool) error {
	if err := u.own(ctx, "rename", from, false); err != nil {
		return err
	}
	err := u.tree.Rename(ctx, from, to, false)
	if err == nil {
		u.made(ctx, to)
	}
	return err
}

func (u *uploadOnly) SetAttr(ctx context.Context, name string, a Attr, _ bool) error {
	if err := u.own(ctx, "setattr", name, true); err != nil {
		return err
	}
	return u.setAttr(name, a, func(a Attr) error { return u.tree.SetAttr(ctx, name, a, false) })
}

func (u *uploadOnly) Readlink(ctx context.Context, name string) (string, error) {
	if err := u.read(ctx, "readlink", name); err != nil {
		return "", err
	}
	return u.tree.Readlink(ctx, name)
}

func (u *uploadOnly) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	all, err := u.tree.ReadDir(ctx, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return u.hides(e.Name(), e.IsDir()) }), err
}

func (u *uploadOnly) OpenDir(ctx context.Context, name string) (Entries, error) {
	e, err := u.tree.OpenDir(ctx, name)
	if err != nil {
		return nil, err
	}
	return filter{e, func(fi fs.FileInfo) bool { return u.hides(fi.Name(), fi.IsDir()) }}, nil
}

// An uploadHandle is a handle of a file that was made through the view.
type uploadHandle struct {
	Handle
	view *uploadOnly
	name string
}

// Unwrap is for [As].
func (h uploadHandle) Unwrap() any { return h.Handle }

func (h uploadHandle) SetAttr(a Attr) error {
	return h.view.setAttr(h.name, a, h.Handle.SetAttr)
}

// setAttr sets all attributes except for the owner. If a changes the owner too, it sets the other
// attributes and returns an error.
func (u *uploadOnly) setAttr(name string, a Attr, set func(Attr) error) error {
	owned := a.ChangesOwner()
	a.UID, a.GID = nil, nil
	err := set(a)
	if err == nil && owned {
		err = u.refuse("setattr", name)
	}
	return err
}

// read returns an error unless the view's user may read the file of that name. Only the maker of an
// unfinished file may read it.
func (u *uploadOnly) read(ctx context.Context, op, name string) error {
	if !u.reads {
		return u.refuse(op, name)
	}
	if !isUnfinished(name) {
		return nil
	}
	return u.own(ctx, op, name, false)
}

// hides reports whether a directory listing omits an entry.
func (u *uploadOnly) hides(name string, dir bool) bool {
	return !dir && (!u.reads || isUnfinished(name))
}
