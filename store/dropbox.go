package store

import (
	"context"
	"io/fs"
	"slices"
	"sync"
)

const (
	// maxOwnFiles and maxOwnDirs bound the memory, in bytes, for the names that were made through a
	// drop box. It is enough for some thousands of names. Clients finish a file soon, but set the
	// times of a directory only after they have filled it, so directories get more room.
	maxOwnFiles = 256 << 10
	maxOwnDirs  = 1 << 20

	// ownCost is the memory for a name in addition to its text, in bytes.
	ownCost = 256
)

// UploadOnly returns t as a drop box: its users can add files, but cannot read or damage existing
// ones, and see few of their names.
//
//   - Files and directories can be added under free names: by Create, which is always
//     exclusive, by OpenFile with Create, and by Mkdir.
//   - A file or directory that was made through this view, and still has its name, can be
//     finished, for clients that upload under another name first. A file can be opened again
//     for writing, renamed to a free name, and removed; an empty directory can be removed.
//     All attributes of both can be set, except for the owner. If there are very many, the
//     view forgets the oldest.
//   - A directory can be listed, but shows only its directories, for clients that list
//     their current directory.
//   - A client that knows a name can call Stat and Lstat on it, as many do after they have
//     sent a file.
//
// Any other call is an [fs.ErrPermission]. A change of a file that does not exist is an
// [fs.ErrNotExist], as it is for Lstat.
//
// Give each user a view of their own. A client with several connections has several views, so
// knowing a name also identifies its maker: if one of the functions secret reports that only the
// maker of a file can know its name, a client that uses the name counts as the maker.
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

// CreateOnly returns t without the right to change or remove files that were there before. New
// files and directories are accepted as with [UploadOnly], and everything can be read and listed,
// except for the files that [Finished] hides: they are not listed, and only their makers can read
// them.
func CreateOnly(t Tree, secret ...func(name string) bool) Tree {
	u := newUploadOnly(t, secret)
	u.reads, u.reason = true, errCreateOnly
	return u
}

type uploadOnly struct {
	refusing
	of     Capabilities // capabilities of the tree
	reads  bool         // existing files can be read and listed
	secret []func(name string) bool

	mu          sync.Mutex
	files, dirs ownNames // mu
}

// ownNames maps the names that were made through the view to their files. If there are too many, it
// forgets the oldest.
type ownNames struct {
	limit int // bytes
	used  int
	is    map[string]ownFile
	order []string // oldest first; some are forgotten already
}

// An ownFile is a file or a directory that was made through the view.
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

// describe describes the file that has the name now. The caller already has its description fi.
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

// made records a name that was made just now. If the file cannot be described, its maker is
// unknown, and it belongs to no user.
func (u *uploadOnly) made(ctx context.Context, name string) {
	if fi, err := u.tree.Lstat(context.WithoutCancel(ctx), name); err == nil {
		u.note(name, fi)
	}
}

// own returns an error unless the file of that name was made through this view. The error is
// fs.ErrNotExist if there is no such file.
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

// isStill reports whether f still has its name. Only stores in a directory or in memory can say
// which file it is; for others, a matching name suffices.
func (f ownFile) isStill(now ownFile) bool {
	if SameFile(f.info, now.info) {
		return f.birth == now.birth
	}
	_, mem := f.info.(memInfo)
	_, other := f.info.Sys().(Details)
	return other && !mem
}

// Capabilities withholds OpenUpload from users who may not read.
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

// An ownUpload records its name as the user's own when it is committed.
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
		a.Create = false // by now the name might be another user's
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

// Rename renames files only: a directory may hold files of other users.
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

// An uploadHandle is a file that its uploader created.
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

// setAttr sets all attributes except for the owner, which it refuses.
func (u *uploadOnly) setAttr(name string, a Attr, set func(Attr) error) error {
	owned := a.ChangesOwner()
	a.UID, a.GID = nil, nil
	err := set(a)
	if err == nil && owned {
		err = u.refuse("setattr", name)
	}
	return err
}

// read returns an error unless the name may be read through the view. Only the maker of
// an unfinished file may read it.
func (u *uploadOnly) read(ctx context.Context, op, name string) error {
	if !u.reads {
		return u.refuse(op, name)
	}
	if !isUnfinished(name) {
		return nil
	}
	return u.own(ctx, op, name, false)
}

// hides reports whether an entry of a directory is not listed.
func (u *uploadOnly) hides(name string, dir bool) bool {
	return !dir && (!u.reads || isUnfinished(name))
}
