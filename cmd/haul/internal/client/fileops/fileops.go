// Package fileops is what haul ls, tree, stat, sum, cat, probe, df, rm, mv, mkdir, chmod and ln
// do with the files of a server, and what they print.
package fileops

import (
	"path"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// below returns the path of a name in a directory.
func below(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name // not cleaned: what it means depends on links
}

// lacks refuses what the protocol of a location has no way to do.
func lacks(command string, l remote.Location, what string) error {
	return failure.Usage.Errorf("%s %v: %v has no way to %s", command, l, l.Protocol, what)
}

// checkPrecious refuses to remove or rename what is there for others to be in.
func checkPrecious(command string, l remote.Location) error {
	if isPrecious(l) {
		return failure.Usage.Errorf("%s %v: refused, as are /, home directories and names that end in . or ..; name the files in the directory", command, l)
	}
	return nil
}

// isPrecious reports whether a location is one that would be removed by mistake only.
func isPrecious(l remote.Location) bool {
	name := strings.TrimRight(l.Path, "/")
	if l.Protocol == remote.SFTP && strings.HasPrefix(name, "~") && !strings.Contains(name, "/") {
		return true // somebody's home directory
	}
	last := name[strings.LastIndexByte(name, '/')+1:]
	return last == "" || last == "." || last == ".." || path.Clean("/"+name) == "/"
}
