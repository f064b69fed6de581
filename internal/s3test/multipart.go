package s3test

import (
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minPart is the minimum size in bytes of a part that is not the last one.
const minPart = 5 << 20

// A multipart is an unfinished upload.
type multipart struct {
	key   string
	parts map[int]Object // by part number, from 1
}

// UploadsLeft returns the number of uploads that were neither completed nor aborted.
func (s *Server) UploadsLeft() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// SetPart replaces the part with the given number in all unfinished uploads, as if another client had
// written it. change gets the content of the upload's part 1, and returns the content of the new part.
func (s *Server) SetPart(number int, change func(first string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.uploads {
		m.parts[number] = NewObject(change(m.parts[1].read()))
	}
}

// The callers of all functions below hold mu.

func (s *Server) beginUpload(w http.ResponseWriter, key string) {
	s.serial++
	id := fmt.Sprint("upload-", s.serial)
	s.uploads[id] = &multipart{key, map[int]Object{}}
	answerXML(w, struct {
		XMLName xml.Name `xml:"InitiateMultipartUploadResult"`
		ID      string   `xml:"UploadId"`
	}{ID: id})
}

func (s *Server) multipart(w http.ResponseWriter, r *http.Request, key string, q url.Values, body []byte) {
	m := s.uploads[q.Get("uploadId")]
	if m == nil || m.key != key {
		Refuse(w, r, 404, "NoSuchUpload")
		return
	}
	switch r.Method {
	case "PUT":
		n, _ := strconv.Atoi(q.Get("partNumber"))
		m.parts[n] = NewObject(string(body))
		w.Header().Set("ETag", `"`+m.parts[n].ETag+`"`)
	case "DELETE":
		delete(s.uploads, q.Get("uploadId"))
		w.WriteHeader(204)
	case "GET":
		type part struct {
			PartNumber int
			ETag       string
			Size       int64
		}
		var answer struct {
			XMLName xml.Name `xml:"ListPartsResult"`
			Part    []part
		}
		for _, n := range slices.Sorted(maps.Keys(m.parts)) {
			answer.Part = append(answer.Part, part{n, `"` + m.parts[n].ETag + `"`, m.parts[n].Size})
		}
		answerXML(w, answer)
	case "POST":
		s.complete(w, r, key, q.Get("uploadId"), m, body)
	}
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, key, id string, m *multipart, body []byte) {
	var list struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		Refuse(w, r, 400, "MalformedXML")
		return
	}
	if _, there := s.objects[key]; there && r.Header.Get("If-None-Match") == "*" {
		Refuse(w, r, 412, "PreconditionFailed")
		return
	}
	var data strings.Builder
	sums := md5.New()
	for i, p := range list.Part {
		have, there := m.parts[p.PartNumber]
		if !there || strings.Trim(p.ETag, `"`) != have.ETag || i < len(list.Part)-1 && have.Size < minPart {
			Refuse(w, r, 400, "InvalidPart")
			return
		}
		data.WriteString(have.read())
		sums.Write(sumOf(have.ETag))
	}
	whole := NewObject(data.String())
	whole.ETag = fmt.Sprintf("%x-%d", sums.Sum(nil), len(list.Part))
	s.put(key, whole)
	delete(s.uploads, id)
	answerXML(w, struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
	}{Bucket: "bucket", Key: key, ETag: whole.ETag})
}

// listUploads answers ListMultipartUploads. The uploads are in no particular order.
func (s *Server) listUploads(w http.ResponseWriter, q url.Values) {
	type upload struct {
		Key, Initiated string
		ID             string `xml:"UploadId"`
	}
	var answer struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Upload  []upload
	}
	for id, m := range s.uploads {
		if strings.HasPrefix(m.key, q.Get("prefix")) {
			answer.Upload = append(answer.Upload, upload{m.key, "2001-09-09T01:46:40.000Z", id})
		}
	}
	answerXML(w, answer)
}
