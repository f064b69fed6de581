package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/haul-project/haul/store"
)

// A fileCopier copies files. Several goroutines use it, each for one file at a time.
type fileCopier struct {
	*task
	dirs     *dirMaker
	listings *listings
}

func (c *fileCopier) copy(f *file) (Outcome, error) {
	if c.ctx.Err() != nil {
		return Outcome{}, errNotTried
	}
	if err := c.dirs.need(f.dir); err != nil {
		return Outcome{}, err
	}
	if err := c.lookAtTarget(f); err != nil {
		return Outcome{}, err
	}
	switch {
	case f.old == nil:
	case c.opts.NoClobber:
		return existing, nil
	case c.opts.Update && newer(f.old, f.info):
		return Outcome{What: Existing, Err: errNewer}, nil
	}
	for anew := 0; ; anew++ {
		out, err := c.tryVersion(f, anew)
		if c.opts.NoClobber && errors.Is(err, fs.ErrExist) { // the file was created in the target meanwhile
			return existing, nil
		}
		if anew == maxAnew || !c.replaced(err) {
			return out, err
		}
	}
}

// ended reports the outcome of a file, and then records in its directory that the file is done.
func (c *fileCopier) ended(f *file, out Outcome, err error) {
	switch {
	case err == errNotTried:
		return
	case err != nil:
		out.What, out.Err = Failed, err
	case out.What == Copied:
		f.dir.fill()
	}
	c.report.fileEnded(f.item, out)
}

// errNotTried says that the copy ended before a file's turn came.
var errNotTried = errors.New("not tried")

// existing is the outcome for a file that the target has already, so that NoClobber skips it.
var existing = Outcome{What: Existing, Err: errors.New("there already")}

// errNewer is the reason for which Options.Update leaves a file unchanged.
var errNewer = errors.New("newer than its source")

// newer reports whether a file of the target was modified later than its source. It returns false
// if a time is unknown.
func newer(old, source fs.FileInfo) bool {
	return !source.ModTime().IsZero() && old.ModTime().Unix() > source.ModTime().Unix()
}

// tryVersion copies the current version of a file, unless the target has it already. `anew` is the
// number of versions that were tried before and replaced meanwhile.
func (c *fileCopier) tryVersion(f *file, anew int) (Outcome, error) {
	if anew == 0 {
		same, compared, err := c.unchanged(f)
		if err != nil {
			return Outcome{}, err
		}
		if same {
			return Outcome{What: Same, Verified: compared}, c.updateAttrs(f)
		}
	}
	if c.opts.DryRun {
		return Outcome{What: Copied}, nil
	}
	if c.contained && f.dir != nil && f.dir.there != nil && anew == 0 {
		if err := c.lookAgain(f); err != nil {
			return Outcome{}, err
		}
	}
	if !f.started {
		f.started = true
		c.report.started(f.item)
	}
	src, err := f.openVersion(c.ctx, anew)
	if err != nil {
		return Outcome{}, notOpened(f.tree, err)
	}
	defer src.Close()
	if !remote(src) { // for a remote file, Stat would take a round trip
		if f.opened, err = src.Stat(); err != nil {
			return Outcome{}, err
		}
	}
	if c.opts.InPlace {
		return c.inPlace(f, src)
	}
	return c.upload(f, src)
}

// lookAtTarget sets f.old to the entry that has the file's name in the target, if there is one.
func (c *fileCopier) lookAtTarget(f *file) error {
	if f.dir != nil && !f.dir.fresh {
		fi, err := c.listings.lookUp(f.dir, f.to, f.cleared)
		switch {
		case err == nil:
			f.old = fi
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return c.checkOld(f)
}

// lookAgain looks up a file's name in the target again just before the file is written, because the
// listing may be old. Otherwise the copy could write through a symbolic link that was created
// since.
func (c *fileCopier) lookAgain(f *file) (err error) {
	if f.old, err = c.to.Lstat(c.ctx, f.to); errors.Is(err, fs.ErrNotExist) {
		f.old, err = nil, nil
	}
	if err != nil {
		return err
	}
	return c.checkOld(f)
}

// checkOld returns an error if the file may not replace the entry that has its name in the target.
func (c *fileCopier) checkOld(f *file) error {
	switch {
	case f.old == nil || c.opts.NoClobber:
		return nil
	case store.SameFile(f.old, f.info):
		return fmt.Errorf("%w: the source and the target are one file", fs.ErrInvalid)
	case !f.old.Mode().IsRegular():
		return inTheWay(f.old)
	}
	return nil
}

// open opens the source of the file.
func (f *file) open(ctx context.Context) (store.File, error) {
	if f.listed {
		return f.tree.openDescribed(ctx, f.from, f.info)
	}
	return f.tree.Open(ctx, f.from)
}

// unchanged reports whether the file need not be copied. `compared` says whether unchanged had to
// compare the contents to find out.
func (c *fileCopier) unchanged(f *file) (same, compared bool, err error) {
	if f.old == nil || f.old.Size() != f.info.Size() || !f.old.Mode().IsRegular() {
		return false, false, nil
	}
	from, to := f.info.ModTime(), f.old.ModTime()
	sameTime := !c.to.can.OwnTimes && !from.IsZero() && !to.IsZero() && from.Unix() == to.Unix()
	how := c.equal
	switch {
	case c.opts.Unchanged == Hash:
	case c.opts.Unchanged == Size, sameTime && (c.opts.Unchanged == SizeAndTime || c.opts.Continue):
		if !c.opts.Verify {
			return true, false, nil
		}
	case c.opts.Continue && c.opts.Unchanged == Never:
		how = c.equalCheaply // because comparing by reading both files would cost as much as copying
	default:
		return false, false, nil
	}
	src, err := f.open(c.ctx)
	if err != nil {
		return false, false, err
	}
	defer src.Close()
	dst, err := c.to.openDescribed(c.ctx, f.to, f.old)
	if err == nil {
		defer dst.Close()
		same, err = how(src, dst, f.info.Size())
	}
	// ErrUnsupported means that the contents cannot be compared cheaply, and ErrNotExist that one of
	// the files was removed since it was listed. In both cases, the file is copied.
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	return same, same, err
}

// updateAttrs corrects the attributes of a file whose content is already the same.
func (c *fileCopier) updateAttrs(f *file) error {
	if c.opts.DryRun {
		return nil
	}
	var a store.Attr
	if want := c.mode(f.info, 0o666); c.opts.PreserveMode && want != f.old.Mode().Perm() {
		a.Mode = &want
	}
	if c.opts.fileTimes() && f.info.ModTime().Unix() != f.old.ModTime().Unix() {
		a.AccessTime, a.ModTime = timesOf(f.info)
	}
	if a == (store.Attr{}) {
		return nil
	}
	if err := c.to.SetAttr(c.ctx, f.to, a, true); err != nil {
		return fmt.Errorf("its content is the same, but its attributes could not be set: %w", err)
	}
	return nil
}

// replaced reports whether err means that another version replaced the source during the copy.
func (c *fileCopier) replaced(err error) bool {
	return err != nil && c.opts.Replaced != nil && c.ctx.Err() == nil && c.opts.Replaced(err)
}

// maxAnew is how many times the copy of a file is restarted because its source was replaced. In the
// last attempt, the file is read as one stream, if the server supports that. Then it does not matter
// if the source is replaced again.
const maxAnew = 2

// openVersion opens the source for an attempt; `anew` is the number of earlier attempts. After the
// first attempt, the listed properties are those of an older version, so openVersion looks them up
// again. For the last attempt, it opens the file as one stream, so that the copy cannot contain
// parts of two versions.
func (f *file) openVersion(ctx context.Context, anew int) (store.File, error) {
	if anew == 0 {
		return f.open(ctx)
	}
	f.listed = false
	open := f.tree.Open
	if f.tree.can.OpenStream != nil && anew == maxAnew {
		open = f.tree.can.OpenStream
	}
	src, err := open(ctx, f.from)
	if err != nil {
		return nil, err
	}
	fi, err := src.Stat()
	if err != nil {
		_ = src.Close()
		return nil, err
	}
	f.info = fi
	return src, nil
}
