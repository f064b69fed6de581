package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// Remove removes a file, a symbolic link or an empty directory. If a directory is not empty, the error
// is fs.ErrExist.
func (c *Client) Remove(ctx context.Context, name string) error {
	err := c.RemoveFile(ctx, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || !isStatus(err) {
		return err
	}
	// The path may be a directory: for a directory, servers return "Failure" or "permission
	// denied".
	fi, e := c.Lstat(ctx, name)
	if e != nil || !fi.IsDir() {
		return err
	}
	return c.RemoveDir(ctx, name)
}

// RemoveFile removes a file or a symbolic link.
func (c *Client) RemoveFile(ctx context.Context, name string) error {
	return c.one(ctx, "remove", name, mux.Call{Take: mux.TakeOK}, wire.AppendRemove)
}

// RemoveDir removes an empty directory. If it is not empty, the error is fs.ErrExist.
func (c *Client) RemoveDir(ctx context.Context, name string) error {
	err := c.one(ctx, "rmdir", name, mux.Call{Take: mux.TakeOK}, wire.AppendRmdir)
	if !isFailure(err) {
		return err
	}
	// The reason for the failure may be that the directory has entries.
	d, e := c.OpenDir(ctx, name)
	if e != nil {
		return err
	}
	defer d.Close()
	if n, _ := d.Next(make([]fs.FileInfo, 1)); n > 0 {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			p.Err = exists(p.Err)
		}
	}
	return err
}

// RemoveAll removes a file, or a directory and everything in it. It returns nil if the name does
// not exist. It removes a symbolic link, not its target.
func (c *Client) RemoveAll(ctx context.Context, name string) error {
	fi, err := c.Lstat(ctx, name)
	if err == nil && !fi.IsDir() {
		err = c.RemoveFile(ctx, name)
	} else if err == nil {
		t := treeRemover{c: c, again: maxPassesAgain}
		err = t.remove(ctx, name, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const (
	// maxDepth is how deep directories may be nested.
	maxDepth = 1000

	// removesAtOnce is how many files are removed at a time.
	removesAtOnce = 64

	// removePasses is how many times a directory is listed if it does not become empty: removing
	// entries may hide others from a listing that is in progress.
	removePasses = 3

	// maxPassesAgain bounds the second and third passes over a whole tree: if no directory becomes
	// empty, the number of passes multiplies with each level.
	maxPassesAgain = 10_000
)

// A treeRemover removes a directory and everything in it.
type treeRemover struct {
	c     *Client
	again int // how many second and third passes over directories are still allowed
}

// remove removes a directory that is `depth` levels below the root of the tree, with its contents.
func (t *treeRemover) remove(ctx context.Context, name string, depth int) error {
	if depth > maxDepth {
		return pathError("remove", name, fmt.Errorf("deeper than %d directories", maxDepth))
	}
	for pass := 1; ; pass++ {
		err := t.emptyDir(ctx, name, depth)
		if err == nil {
			err = t.c.RemoveDir(ctx, name)
		}
		if !errors.Is(err, fs.ErrExist) || pass == removePasses || t.again == 0 {
			return err
		}
		t.again--
	}
}

// emptyDir removes the contents of a directory, several files at a time.
func (t *treeRemover) emptyDir(ctx context.Context, name string, depth int) (first error) {
	d, err := t.c.openDir(ctx, name, nil)
	if err != nil {
		return pathError("readdir", name, err)
	}
	defer d.Close()
	note := func(err error) {
		if first == nil && !errors.Is(err, fs.ErrNotExist) {
			first = err
		}
	}
	into := make([]fs.FileInfo, removesAtOnce)
	for {
		n, err := d.Next(into)
		if err == io.EOF {
			return first
		}
		if err != nil {
			return err
		}
		errs := make(chan error, n)
		files := 0
		for _, fi := range into[:n] {
			below := name + "/" + fi.Name() // do not clean the path: the meaning of name depends on links
			if fi.IsDir() {
				note(t.remove(ctx, below, depth+1))
				continue
			}
			files++
			go func() { errs <- t.c.RemoveFile(ctx, below) }()
		}
		for range files {
			note(<-errs)
		}
	}
}
