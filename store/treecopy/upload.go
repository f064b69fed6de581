package treecopy

import (
	"errors"
	"fmt"

	"github.com/haul-project/haul/store"
)

// resumeFrom is the size, in bytes, from which a file is kept if its copy is interrupted. Copying a
// smaller file again costs less than keeping a record of it.
const resumeFrom = 1 << 20

// upload copies a file to a temporary file, which gets its name when it is complete.
func (c *fileCopier) upload(f *file, src store.File) (out Outcome, err error) {
	u, resumed, err := c.create(f, src)
	if err != nil {
		return Outcome{}, err
	}
	defer u.Close() // keeps the temporary file if it can be resumed, and otherwise removes it
	m := &move{task: c.task, f: f, src: src, dst: u, upload: u}
	m.note(resumed)
	end, err := m.run(resumed)
	out = Outcome{Bytes: m.moved(resumed), Resumed: resumed, Cloned: m.cloned}
	if err == nil {
		var late store.Attr
		if late, err = c.complete(f, src, u, end, &out); err == nil && late != (store.Attr{}) {
			err = c.to.SetAttr(c.ctx, f.to, late, true)
		}
		if err == nil && c.opts.Verify && !out.Verified {
			err = c.verifyNamed(f, src, end)
			out.Verified = err == nil
		}
	}
	if err != nil {
		m.takeBack()
		if r, ok := store.As[store.Resumer](u); ok && (errors.Is(err, ErrChanged) || errors.Is(err, ErrDiffers) || c.replaced(err)) {
			_ = r.Discard()
		}
	}
	return out, err
}

// create begins or resumes an upload. `resumed` is the number of bytes that the upload already has
// from an earlier copy.
func (c *fileCopier) create(f *file, src store.File) (u store.Upload, resumed int64, err error) {
	size := f.info.Size()
	o := store.Create{Size: size, Perm: c.mode(f.info, 0o666), NoSync: !c.opts.Durable, Exclusive: c.mustBeNew(f)}
	if c.opts.Sparse {
		o.Size = 0 // because the check for free space does not consider holes
	}
	version, known := identity(f.info), true
	if v, ok := store.As[store.Versioned](src); ok {
		version = v.Version()
		known = version != ""
	}
	switch {
	case !c.opts.Continue || size < resumeFrom:
	case !known:
		c.report.fromStart(f.item, errNoVersion)
	default:
		o.Resume = who()
		o.Source = fmt.Sprintf("%s\x00%d\x00%d\x00%s", f.from, size, f.info.ModTime().UnixNano(), version)
	}
	u, err = c.to.Create(c.ctx, f.to, o)
	if err != nil {
		return nil, 0, notOpened(c.to, err)
	}
	c.landed.Store(true)
	r, ok := store.As[store.Resumer](u)
	if !ok && o.Resume != "" {
		c.report.fromStart(f.item, errNotKept)
	}
	if match := c.to.can.Match; ok && match != nil {
		if resumed, err = match(c.ctx, u, src); err != nil {
			_ = u.Close()
			return nil, 0, err
		}
		return u, resumed, nil
	}
	if !ok || r.Resumed() == 0 {
		return u, 0, nil
	}
	same, err := c.overlaps(src, u, r.Resumed(), size)
	if err != nil {
		_ = u.Close()
		return nil, 0, err
	}
	if same {
		return u, r.Resumed(), nil
	}
	c.report.fromStart(f.item, fmt.Errorf("what is kept of it is not the same as the source: %w", ErrChanged))
	if err := r.Discard(); err != nil {
		return nil, 0, err
	}
	u, err = c.to.Create(c.ctx, f.to, o)
	return u, 0, err
}

// complete finishes an upload of `end` bytes: it sets the attributes, verifies the content if that is
// requested, and commits. It returns the attributes that can be set only after the commit.
func (c *fileCopier) complete(f *file, src store.File, u store.Upload, end int64, out *Outcome) (late store.Attr, err error) {
	if err := checkChanged(f, src, end); err != nil {
		return late, err
	}
	if c.opts.Sparse { // the file may end in a hole
		if err := u.Truncate(end); err != nil {
			return late, err
		}
	}
	late = c.attrs(f)
	if a, ok := store.As[store.AttrUpload](u); ok && late != (store.Attr{}) {
		if err := a.SetAttr(late); err != nil {
			return late, err
		}
		late = store.Attr{}
	}
	if open := c.to.can.OpenUpload; open != nil && c.opts.Verify {
		written, err := open(c.ctx, u)
		if err != nil {
			return late, toVerify(err)
		}
		same, err := c.equal(src, written, end)
		_ = written.Close()
		if err != nil {
			return late, err
		}
		if !same {
			return late, ErrDiffers
		}
		out.Verified = true
	}
	return late, u.Commit()
}

// verifyNamed compares a file that already has its name in the target with the source.
func (c *fileCopier) verifyNamed(f *file, src store.File, end int64) error {
	dst, err := c.to.Open(c.ctx, f.to)
	if err != nil {
		return toVerify(err)
	}
	defer dst.Close()
	fi, err := dst.Stat()
	if err != nil {
		return err
	}
	same := fi.Size() == end
	if same {
		same, err = c.equal(src, dst, end)
	}
	if err == nil && !same {
		err = ErrDiffers
	}
	return err
}

// toVerify wraps an error from opening a copy that has to be read to be verified.
func toVerify(err error) error { return fmt.Errorf("to verify it, it has to be read: %w", err) }

// attrs returns the attributes that the copy of f should get.
func (c *fileCopier) attrs(f *file) (a store.Attr) {
	perm := c.mode(f.info, 0o666)
	// Create would replace a mode of 0 with its default, so set that mode here.
	if c.opts.PreserveMode || f.old == nil && perm == 0 && !c.to.can.ImpliedDirs {
		a.Mode = &perm
	}
	if c.opts.fileTimes() {
		a.AccessTime, a.ModTime = timesOf(f.info)
	}
	return a
}

// checkChanged returns an error if the source has changed during the copy, as far as that can be
// detected without cost. If the source has grown, that is not an error: its former length is
// copied.
func checkChanged(f *file, src store.File, end int64) error {
	if end < f.info.Size() {
		return fmt.Errorf("%w: it had %d bytes and has %d", ErrChanged, f.info.Size(), end)
	}
	if f.opened == nil {
		return nil
	}
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	if end == f.opened.Size() && fi.Size() == end && !fi.ModTime().Equal(f.opened.ModTime()) {
		return fmt.Errorf("%w: it was written to", ErrChanged)
	}
	return nil
}

// inPlace copies a file directly to its name in the target, without a temporary file.
func (c *fileCopier) inPlace(f *file, src store.File) (out Outcome, err error) {
	a := store.Access{Write: true, Create: true, Perm: c.mode(f.info, 0o666)}
	a.Exclusive = c.mustBeNew(f)
	resumed, err := c.partThere(f, src)
	if err != nil {
		return Outcome{}, err
	}
	a.Truncate = resumed == 0
	h, err := c.to.OpenFile(c.ctx, f.to, a)
	if err != nil {
		return Outcome{}, notOpened(c.to, err)
	}
	f.created = true
	c.landed.Store(true)
	m := &move{task: c.task, f: f, src: src, dst: h}
	m.note(resumed)
	end, err := m.run(resumed)
	out = Outcome{Bytes: m.moved(resumed), Resumed: resumed}
	if err == nil {
		err = checkChanged(f, src, end)
	}
	if err == nil && (c.opts.Sparse || resumed > 0) {
		err = h.Truncate(end)
	}
	if attr := c.attrs(f); err == nil && attr != (store.Attr{}) {
		err = h.SetAttr(attr)
	}
	if err == nil && c.opts.Durable {
		if err = h.Sync(); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
	}
	if e := h.Close(); err == nil {
		err = e
	}
	if err == nil && c.opts.Verify {
		err = c.verifyNamed(f, src, end)
		out.Verified = err == nil
	}
	if err != nil {
		m.takeBack()
	}
	return out, err
}

// mustBeNew reports whether creating the file must fail if the name exists. Otherwise the copy
// could write through a symbolic link that this copy or another program has made since. A server is
// asked for this only if Options.NoClobber requires it: if the request is repeated, it could fail
// because of the file that the first request created.
func (c *fileCopier) mustBeNew(f *file) bool {
	return (c.contained || c.opts.NoClobber) && f.old == nil && !f.created
}

// partThere returns how many bytes of a file that is written in place can be kept from an earlier
// copy. Since they may have gaps, all of them must be compared with the source, and both sides must
// be able to do that without transferring them.
func (c *fileCopier) partThere(f *file, src store.File) (int64, error) {
	if !c.opts.Continue || f.old == nil || f.old.Size() == 0 || f.old.Size() >= f.info.Size() {
		return 0, nil
	}
	dst, err := c.to.Open(c.ctx, f.to)
	if err != nil {
		return 0, err
	}
	defer dst.Close()
	same, err := c.equalCheaply(src, dst, f.old.Size())
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	if err != nil || !same {
		return 0, err
	}
	return f.old.Size(), nil
}
