package store

import "context"

// The methods that an upload may have besides those of [Upload].
type (
	attrSetter interface{ SetAttr(a Attr) error }
	opener     interface {
		Open(ctx context.Context) (File, error)
	}
	resumption interface {
		Resumed() int64
		Discard() error
	}
)

// A viewUpload is the upload of a view, around that of a store.
type viewUpload interface {
	Upload
	Located
	Published() *Published
}

// CarryUpload returns outer, which is around inner, with the methods that inner has besides
// those of [Upload]: those of an [AttrUpload], a [Resumer] and, if it may be read, a
// [ReadableUpload]. Each view of uploads passes through here, so that none is lost.
func CarryUpload(outer viewUpload, inner Upload, readable bool) Upload {
	a, hasAttr := inner.(attrSetter)
	o, opens := inner.(opener)
	r, resumes := inner.(resumption)
	switch opens = opens && readable; {
	case hasAttr && opens && resumes:
		return struct {
			viewUpload
			attrSetter
			opener
			resumption
		}{outer, a, o, r}
	case hasAttr && opens:
		return struct {
			viewUpload
			attrSetter
			opener
		}{outer, a, o}
	case hasAttr && resumes:
		return struct {
			viewUpload
			attrSetter
			resumption
		}{outer, a, r}
	case opens && resumes:
		return struct {
			viewUpload
			opener
			resumption
		}{outer, o, r}
	case hasAttr:
		return struct {
			viewUpload
			attrSetter
		}{outer, a}
	case opens:
		return struct {
			viewUpload
			opener
		}{outer, o}
	case resumes:
		return struct {
			viewUpload
			resumption
		}{outer, r}
	}
	return outer
}

// OnCommit returns u, which calls done after each Commit, whatever comes of that, with the
// methods that u has besides those of [Upload]: those of an [AttrUpload], a [Resumer] and a
// [ReadableUpload].
func OnCommit(u Upload, done func()) Upload {
	return CarryUpload(&observedUpload{u, done}, u, true)
}

// An observedUpload reports its Commit.
type observedUpload struct {
	Upload
	done func()
}

func (u *observedUpload) Commit() error {
	defer u.done()
	return u.Upload.Commit()
}

// Location returns the path that the upload is for.
func (u *observedUpload) Location() string { return LocationOf(u.Upload) }

// Published is for [PublishedBy].
func (u *observedUpload) Published() *Published { return PublishedBy(u.Upload) }
