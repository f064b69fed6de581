package rules

import (
	"context"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"
)

// MaxName is the length of the longest valid name, in bytes. It is PATH_MAX of Linux.
const MaxName = 4096

// ValidName reports whether a name is valid for every store. Package store exports and documents
// this function.
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

// localName reports whether this system takes a name literally. Windows does not: backslashes,
// colons, device names and short names have a special meaning there.
func localName(name string) bool {
	if runtime.GOOS != "windows" {
		return true
	}
	_, err := filepath.Localize(name)
	return err == nil && !hasShort(name)
}

// hasShort reports whether an element of a name could be the short name (8.3) that Windows gives to
// another file. Such a short name, for example HAUL-A~1.PAR, would bypass a pattern that denies the
// long name. A short name has at most eight characters, the last of which are a tilde and digits,
// and an extension of up to three characters.
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

// CheckName returns an error if ctx has ended or name is invalid.
func CheckName(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(name) > MaxName || !ValidName(name) {
		return fs.ErrInvalid
	}
	if !localName(name) {
		return errNotLocal
	}
	return nil
}

// CheckText returns an error if target is not a valid text for a symbolic link.
func CheckText(target string) error {
	if target == "" || len(target) > MaxName || strings.IndexByte(target, 0) >= 0 {
		return fs.ErrInvalid
	}
	return nil
}
