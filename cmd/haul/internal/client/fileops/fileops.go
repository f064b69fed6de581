// Package fileops implements haul ls, tree, stat, sum, cat, probe, df, rm, mv, mkdir, chmod and
// ln: their operations on a server's files, and their output.
package fileops

import (
	"path"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// below returns the path of the entry called `name` in the directory dir.
func below(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name // do not clean the path, because the meaning of .. depends on symbolic links
}

// lacks returns the error for a location whose protocol does not support an operation. `what` names
// the operation.
func lacks(command string, l remote.Location, what string) error {
	return failure.Usage.Errorf("%s %v: %v has no way to %s", command, l, l.Protocol, what)
}

// checkPrecious returns an error if a location must not be removed or renamed.
func checkPrecious(command string, l remote.Location) error {
	if isPrecious(l) {
		return failure.Usage.Errorf("%s %v: refused, as are /, home directories and names that end in . or ..; name the files in the directory", command, l)
	}
	return nil
}

// isPrecious reports whether a location is one that nobody would remove on purpose, such as / or a
// home directory.
func isPrecious(l remote.Location) bool {
	name := strings.TrimRight(l.Path, "/")
	if l.Protocol == remote.SFTP && strings.HasPrefix(name, "~") && !strings.Contains(name, "/") {
		return true // ~ or ~USER, which is a home directory
	}
	last := name[strings.LastIndexByte(name, '/')+1:]
	return last == "" || last == "." || last == ".." || path.Clean("/"+name) == "/"
}
