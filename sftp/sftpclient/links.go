package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/store"
)

// maxLinks is how many symbolic links the resolution of a name may follow, as on Linux.
const maxLinks = 40

// linkTarget returns the name to which a symbolic link leads. No part of the result is a link; the
// file need not exist.
//
// OpenSSH's server returns this name for REALPATH. Other servers, including haul, only clean the
// text, so the client resolves each part in turn. A server may refuse to follow a link that the
// client may read, so the attributes of the target must equal those that the server returns through
// the link.
func linkTarget(ctx context.Context, c *Client, name string) (string, error) {
	real, err := c.RealPath(ctx, name)
	if err != nil {
		return "", err
	}
	fi, err := c.Lstat(ctx, real)
	if errors.Is(err, fs.ErrNotExist) || err == nil && fi.Mode().Type() != fs.ModeSymlink {
		return real, nil
	}
	if err != nil {
		return "", err
	}
	found, followed := c.Stat(ctx, name)
	if followed != nil && !errors.Is(followed, fs.ErrNotExist) {
		return "", followed
	}
	if real, err = walkLinks(ctx, c, real); err != nil {
		return "", err
	}
	fi, err = c.Lstat(ctx, real)
	switch {
	case errors.Is(err, fs.ErrNotExist) && followed != nil:
		return real, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err != nil || followed != nil || fi.Mode() != found.Mode() || fi.Size() != found.Size() || !fi.ModTime().Equal(found.ModTime()):
		return "", fmt.Errorf("%w: the server does not follow the link %s to %s", store.ErrNotRegular, name, real)
	}
	return real, nil
}

// walkLinks resolves the links of an absolute name, part by part. Only the last part may be
// missing.
func walkLinks(ctx context.Context, c *Client, name string) (string, error) {
	done, rest := "/", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		fi, err := c.Lstat(ctx, next)
		if errors.Is(err, fs.ErrNotExist) && len(rest) == 0 {
			return next, nil
		}
		if err != nil {
			return "", err
		}
		if fi.Mode().Type() != fs.ModeSymlink {
			done = next
			continue
		}
		if links++; links > maxLinks {
			// For too many links, servers too answer that there is no such file.
			return "", fmt.Errorf("%w: more than %d symbolic links", fs.ErrNotExist, maxLinks)
		}
		target, err := c.Readlink(ctx, next)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(target, "/") {
			done = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
		if len(target)+len(rest) > maxLinkParts {
			return "", fmt.Errorf("%w: the links make too long a name", store.ErrNotRegular)
		}
	}
	return done, nil
}

// maxLinkParts bounds the name that remains to be resolved after a link: the bytes of the link's
// target and the number of parts, added up.
const maxLinkParts = 8192
