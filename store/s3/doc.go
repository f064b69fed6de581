// Package s3 keeps files as the objects of a bucket of Amazon S3, or of another server
// with its interface, such as Ceph, MinIO and versitygw.
//
//	st, err := s3.New("images", "boot", s3.Config{})
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//	f, err := st.Open(ctx, "kernel") // the object boot/kernel
//
// Endpoint, region and keys come from where the tools of AWS find them: see [Config].
//
// # Files
//
// To open a file is one GET of all of it, which brings what is read in order from the
// start; or no request, if a listing has just described it ([Store.OpenListed]). Else it is
// read by requests for ranges, each of which names the ETag of the object that was opened, or
// the time of its last change if it has none: a file that is replaced meanwhile gives
// [store.ErrChanged], and never a mix of two.
//
// A file up to the size of one part is written by one PUT, a larger one by a multipart
// upload, whose parts may come in any order. It has its name when it is whole, and not
// before.
//
// # Directories
//
// S3 has none: a directory is there as long as a key begins with its name and a slash.
// An object whose key is no name of a file, such as a//b or ../x, is not listed. There
// are no permissions, owners, links or times but that of the upload.
package s3
