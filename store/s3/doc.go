// Package s3 keeps files as objects in a bucket of Amazon S3, or of another server with the same
// interface, such as Ceph, MinIO and versitygw.
//
//	st, err := s3.New("images", "boot", s3.Config{})
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//	f, err := st.Open(ctx, "kernel") // the object boot/kernel
//
// Endpoint, region and keys are found as by the AWS tools: see [Config].
//
// # Files
//
// Opening a file takes one GET of all of it, whose answer serves reads in order from the start. It
// takes no request if a listing has just described the file: see OpenListed of
// [store.Capabilities]. All other reads request ranges. Each request states the ETag of the object
// that was opened as a condition, or the time of its last change if it has none. So if a file is
// replaced meanwhile, the error is [store.ErrChanged], and the two contents are never mixed.
//
// A file up to the size of one part is written with one PUT, and a larger one with a multipart
// upload, whose parts may be written in any order. The file gets its name only when it is complete.
//
// # Directories
//
// S3 has no directories: a directory exists as long as a key begins with its name and a slash. An
// object whose key is not a valid file name, such as a//b or ../x, is not listed. There are no
// permissions, owners or links, and no times other than that of the upload.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// The objects that it writes are plain: any S3 tool reads them.
// The page https://github.com/haul-project/haul/blob/main/docs/versions.md has the whole promise.
package s3
