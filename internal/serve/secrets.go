package serve

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A secret is a file or a directory of the server that no client may read or change, by
// any protocol.
type secret struct {
	flag string // where it is named
	what string
	path string

	instead string // how to run without the file; "" if there is no way
}

// keepSecrets refuses to serve the secrets of any service, and others, by any service.
func keepSecrets(services []service, all []secret) error {
	for _, s := range services {
		all = append(all, s.secrets()...)
	}
	for _, s := range services {
		if err := s.keepSecret(all); err != nil {
			return err
		}
	}
	return nil
}

// checkApart refuses to serve directories that hold a secret.
func checkApart(served []string, all []secret) error {
	for _, dir := range served {
		for _, s := range all {
			if s.isIn(realPath(dir)) {
				return usagef(strings.TrimPrefix(s.flag, "--"), "%s %s: %s would be in %s, which is served, so that clients could read or change it; choose a place outside, or serve only the directories below that are needed%s",
					s.flag, s.path, s.what, dir, s.instead)
			}
		}
	}
	return nil
}

// isIn reports whether a secret is in a directory, whose path has no symbolic links, or
// whether a link in that directory leads to it: a client that replaces the link would
// choose what the secret is.
func (s secret) isIn(dir string) bool {
	return within(realPath(s.path), dir) ||
		slices.ContainsFunc(linksTo(s.path), func(link string) bool { return within(link, dir) })
}

// linksTo returns where the symbolic links are that lead to a path. It follows as many
// as a root may have.
func linksTo(path string) (links []string) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	at, rest := splitRoot(absolute)
	for len(rest) > 0 && len(links) < maxRootLinks {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil { // no link
			at = next
			continue
		}
		links = append(links, next)
		more := strings.Split(filepath.ToSlash(target), "/")
		if filepath.IsAbs(target) {
			// Not cleaned: what ".." means depends on the links before it.
			volume := filepath.VolumeName(target)
			at = volume + string(filepath.Separator)
			more = strings.Split(filepath.ToSlash(target[len(volume):]), "/")
		}
		rest = slices.Concat(more, rest)
	}
	return links
}

// keepSecret refuses secrets in what is served.
func (s *publicFiles) keepSecret(all []secret) error {
	for _, dirs := range [][]string{s.reads, s.writes} {
		if err := checkApart(dirs, all); err != nil {
			return err
		}
	}
	return nil
}
