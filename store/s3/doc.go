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
// The endpoint, the region and the keys come from the same places as for the AWS tools: see
// [Config].
//
// # Files
//
// Opening a file sends one GET for the whole file, whose answer serves reads that go in order from
// the start. If a listing has just described the file, opening it needs no request: see OpenListed
// in [store.Capabilities]. All other reads request ranges. Each request has a condition: the ETag
// of the object that was opened or, if it has no ETag, the time of its last change. If a file is
// replaced while it is read, the error is [store.ErrChanged], so two contents are never mixed.
//
// A file that is no larger than one part is written with one PUT. A larger file is written with a
// multipart upload, whose parts may be written in any order. A file gets its name only when it is
// complete.
//
// # Directories
//
// S3 has no directories: a directory exists as long as at least one key begins with the directory's
// name and a slash. Objects whose keys are not valid file names, such as a//b or ../x, are not
// listed. There are no permissions, owners or links, and the only time of a file is the time of its
// upload.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// The objects that it writes are plain: every S3 tool can read them.
// The page https://github.com/haul-project/haul/blob/main/docs/versions.md has the whole promise.
package s3
