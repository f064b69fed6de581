package store

// Used returns how many bytes are charged to m.
func Used(m Tree) int64 { return m.(*memStore).budget.used.Load() }

// SinkUsed returns how many bytes are charged to a Sink.
func SinkUsed(s Store) int64 { return s.(*sink).budget.used.Load() }

// Memory returns the memory that holds the bytes of a file of Mem or a Sink, and whether it is
// mapped.
func Memory(f File) (b []byte, mapped bool) {
	x := f.(*memReader).file.block.extent
	return x.data, x.mapped
}

// UploadMemory returns the same for an upload.
func UploadMemory(u Upload) (b []byte, mapped bool) {
	x := u.(*memUpload).block.extent
	return x.data, x.mapped
}

// IsHidden reports whether Visible hides a name.
func IsHidden(name string) bool { return isHidden(name) }

const (
	MaxFoldDepth = maxFoldDepth
	MapThreshold = mapThreshold
	CopyBelow    = copyBelow
	UploadAhead  = uploadAhead
	CanMap       = canMap
)
