// Package bootmenu finds kernels in a tree, and writes menus from which a machine can boot them: a
// script for iPXE, and one for GRUB. Begin with [Read].
package bootmenu

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// These constants limit the search for entries.
const (
	// MaxEntries is the largest number of entries in a menu.
	MaxEntries = 256

	maxSearched = 1024 // largest number of directories, and of files in loader/entries, that are examined
	maxDepth    = 6    // deepest level of directories
	maxProblems = 32
)

// entriesDir is the directory for entries according to the Boot Loader Specification.
const entriesDir = "loader/entries"

// Files is the tree in which [Read] looks for kernels.
type Files interface {
	// Names returns the names in a directory, sorted. Names of directories end with a slash. "." is
	// the top of the tree. The caller may change the slice.
	Names(dir string) ([]string, error)

	// Read returns the content of a file. It returns an error if the file has more than max bytes.
	Read(name string, max int) ([]byte, error)
}

// Read makes a menu of the entries in loader/entries, in the order of their names. If no entry
// there is usable, each directory that contains exactly one kernel and one initrd becomes an entry.
// Problems with single entries are listed in [Menu.Problems], and do not affect the others.
func Read(files Files) Menu {
	m := Menu{Timeout: 10 * time.Second}
	m.readEntries(files)
	if len(m.Entries) == 0 {
		m.searchDirs(files)
	}
	return m
}

// problem records an error about the file or directory with the given name.
func (m *Menu) problem(name string, err error) {
	if len(m.Problems) < maxProblems {
		m.Problems = append(m.Problems, fmt.Errorf("%s: %w", name, err))
	}
}

var errManyEntries = fmt.Errorf("the menu is full: %d entries are the most", MaxEntries)

func (m *Menu) readEntries(files Files) {
	names, err := files.Names(entriesDir)
	if err != nil {
		return // most trees do not have this directory
	}
	for i, file := range names {
		name, ok := strings.CutSuffix(file, ".conf")
		if !ok {
			continue
		}
		path := entriesDir + "/" + file
		if i >= maxSearched || len(m.Entries) == MaxEntries {
			m.problem(path, errManyEntries)
			return
		}
		text, err := files.Read(path, maxEntryFile)
		if err != nil {
			m.problem(path, err)
			continue
		}
		if e, err := parseEntry(name, text); err != nil {
			m.problem(path, err)
		} else {
			m.Entries = append(m.Entries, e)
		}
	}
}

// searchDirs makes entries of directories with one kernel and one initrd, the highest levels first.
func (m *Menu) searchDirs(files Files) {
	queue := []string{"."}
	for searched := 0; len(queue) > 0; searched++ {
		dir := queue[0]
		queue = queue[1:]
		if searched == maxSearched {
			m.problem(dir, fmt.Errorf("the search for kernels ends here: %d directories are the most", maxSearched))
			return
		}
		names, err := files.Names(dir)
		if err != nil {
			m.problem(dir, err)
			continue
		}
		prefix := ""
		if dir != "." {
			prefix = dir + "/"
		}
		if e, ok := dirEntry(dir, prefix, names); ok {
			if len(m.Entries) == MaxEntries {
				m.problem(dir, errManyEntries)
				return
			}
			m.Entries = append(m.Entries, e)
		}
		if strings.Count(prefix, "/") == maxDepth {
			continue
		}
		for _, name := range names {
			if sub, ok := strings.CutSuffix(name, "/"); ok && sub[0] != '.' && len(queue) < maxSearched {
				queue = append(queue, prefix+sub)
			}
		}
	}
}

// dirEntry makes an entry from a directory with exactly one kernel and one initrd.
func dirEntry(dir, prefix string, names []string) (Entry, bool) {
	kernel, ok := only(names, isKernel)
	if !ok {
		return Entry{}, false
	}
	initrd, ok := only(names, isInitrd)
	if !ok {
		return Entry{}, false
	}
	e := Entry{Name: dir, Title: dir, Linux: prefix + kernel, Initrds: []string{prefix + initrd}}
	if dir == "." {
		e.Name, e.Title = kernel, kernel
	}
	return e, len(e.Linux) <= maxPath && len(e.Initrds[0]) <= maxPath
}

// only returns the only name for which `is` returns true. If there is no such name, or several, ok
// is false.
func only(names []string, is func(string) bool) (found string, ok bool) {
	for _, name := range names {
		if is(strings.ToLower(name)) {
			if ok {
				return "", false
			}
			found, ok = name, true
		}
	}
	return found, ok
}

// isKernel and isInitrd recognize the names that distributions use. The name is in lower case.
func isKernel(name string) bool {
	return !isAbout(name) && (strings.HasPrefix(name, "vmlinuz") || strings.HasPrefix(name, "bzimage") ||
		slices.Contains([]string{"linux", "kernel", "image"}, name))
}

func isInitrd(name string) bool {
	return !isAbout(name) && (strings.HasPrefix(name, "initrd") || strings.HasPrefix(name, "initramfs"))
}

// isAbout reports whether a name is that of a directory, or of a file about another file, such as a
// signature.
func isAbout(name string) bool {
	for _, ending := range []string{"/", ".sig", ".asc", ".sha256", ".sha512", ".md5", ".txt", ".json"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}
