package store

import "path/filepath"

// A Located is a [File], a [Handle] or an [Upload] that knows its place on the disk.
type Located interface {
	// Location returns the path by which it was opened, for people: symbolic
	// links are not resolved. It is empty where the place is not known.
	Location() string
}

// LocationOf returns the path on the disk of a [File], a [Handle] or an [Upload],
// for a log. It is empty for a file that is not on the disk, or does not know its place.
func LocationOf(f any) string {
	if l, ok := f.(Located); ok {
		return l.Location()
	}
	return ""
}

// location returns the path of a name.
func (d *DirStore) location(name string) string {
	if d.Path == "" {
		return ""
	}
	return filepath.Join(d.Path, filepath.FromSlash(name))
}

// Location returns the path by which the file was opened.
func (f *dirFile) Location() string { return f.at.location(f.name) }
