package store

import (
	"context"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/haul-project/haul/internal/tempname"
)

// maxName is the most bytes of a name: Linux's PATH_MAX.
const maxName = 4096

// ValidName reports whether a name is one of a [Store]: elements with slashes
// between, none of them empty, "." or "..", and no NUL in it; or ".", the root.
// Unlike [io/fs.ValidPath] it takes any other bytes, as file systems of Unix do. A
// store may refuse a name that is valid, as one in a directory of Windows or macOS
// refuses what is not UTF-8.
func ValidName(name string) bool {
	if strings.IndexByte(name, 0) >= 0 {
		return false
	}
	if name == "." {
		return true
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element == "." || element == ".." {
			return false
		}
	}
	return true
}

// localName reports whether a name means here what it says. On Windows, backslashes,
// colons and the names of devices mean something else, and so does a short name.
func localName(name string) bool {
	if runtime.GOOS != "windows" {
		return true
	}
	_, err := filepath.Localize(name)
	return err == nil && !hasShort(name)
}

// hasShort reports whether an element of a name could be the short name (8.3) of
// another, such as HAUL-A~1.PAR, under whatever pattern that is denied: at most eight
// characters, of which the last are a tilde and digits, and three more behind a dot.
func hasShort(name string) bool {
	for element := range strings.SplitSeq(name, "/") {
		base, extension, _ := strings.Cut(strings.TrimRight(element, " ."), ".")
		at := strings.LastIndexByte(base, '~')
		if at >= 0 && at < len(base)-1 && strings.Trim(base[at+1:], "0123456789") == "" &&
			utf8.RuneCountInString(base) <= 8 && utf8.RuneCountInString(extension) <= 3 && !strings.Contains(extension, ".") {
			return true
		}
	}
	return false
}

// check returns an error if ctx has ended or name is no name.
func check(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(name) > maxName {
		return fs.ErrInvalid
	}
	if !ValidName(name) {
		return fs.ErrInvalid
	}
	if !localName(name) {
		return errNotLocal
	}
	return nil
}

// isTemp reports whether the last element of name is that of an upload under way, or
// might be for a file system.
func isTemp(name string) bool {
	return tempname.May(name, tempname.Part, tempname.Keep, tempname.Mark)
}

// checkText returns an error if a symbolic link cannot have that text.
func checkText(target string) error {
	if target == "" || len(target) > maxName || strings.IndexByte(target, 0) >= 0 {
		return fs.ErrInvalid
	}
	return nil
}

// checkOld returns an error if name cannot be that of something that exists,
// as far as callers may see.
func checkOld(ctx context.Context, name string) error {
	err := check(ctx, name)
	if err == nil && isTemp(name) {
		err = fs.ErrNotExist
	}
	return err
}

// checkNew returns an error if nothing may be given the name.
func checkNew(ctx context.Context, name string) error {
	err := check(ctx, name)
	if err == nil && isTemp(name) {
		err = errReserved
	}
	return err
}

// checkMovable is checkOld for what shall not be the root.
func checkMovable(ctx context.Context, name string) error {
	err := checkOld(ctx, name)
	if err == nil && name == "." {
		err = errRoot
	}
	return err
}
