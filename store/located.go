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

// Location returns the path by which the file was opened.
func (h *dirHandle) Location() string { return h.store.location(h.name) }

// Location returns the path that the upload is for.
func (u *dirUpload) Location() string { return u.store.location(u.name) }

// Location returns the path that the upload is for.
func (u *layersUpload) Location() string { return LocationOf(u.Upload) }

// Location returns the path that the upload is for.
func (o ownUpload) Location() string { return LocationOf(o.Upload) }

// Location returns the path by which the file was opened.
func (h readHandle) Location() string { return LocationOf(h.Handle) }

// Location returns the path by which the file was opened.
func (h uploadHandle) Location() string { return LocationOf(h.Handle) }

// Location returns the path by which the reader opened the file: others may share
// it under another name.
func (r *sharedReader) Location() string { return r.location }
