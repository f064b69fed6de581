package store

import "strings"

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
