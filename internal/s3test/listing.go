package s3test

import (
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// list answers ListObjectsV2. The caller holds mu.
func (s *Server) list(w http.ResponseWriter, q url.Values) {
	type content struct {
		Key, LastModified, ETag string
		Size                    int64
	}
	type prefix struct{ Prefix string }
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		EncodingType          string
		IsTruncated           bool
		NextContinuationToken string
		Contents              []content
		CommonPrefixes        []prefix
	}
	answer.EncodingType = "url"
	most := 1000
	if n, err := strconv.Atoi(q.Get("max-keys")); err == nil {
		most = n
	}
	if s.sorted == nil {
		s.sorted = slices.Sorted(maps.Keys(s.objects))
	}
	last := q.Get("continuation-token")
	after := max(last, q.Get("start-after"))
	first, _ := slices.BinarySearch(s.sorted, max(after, q.Get("prefix")))
	for _, key := range s.sorted[first:] {
		rest, ok := strings.CutPrefix(key, q.Get("prefix"))
		if !ok {
			break
		}
		shown, dir := key, false
		if name, _, below := strings.Cut(rest, "/"); below && q.Get("delimiter") == "/" {
			shown, dir = q.Get("prefix")+name+"/", true
		}
		if key == after || shown <= last {
			continue
		}
		if len(answer.Contents)+len(answer.CommonPrefixes) == most {
			answer.IsTruncated, answer.NextContinuationToken = true, last
			break
		}
		if last = shown; dir {
			answer.CommonPrefixes = append(answer.CommonPrefixes, prefix{url.QueryEscape(shown)})
		} else {
			o := s.objects[key]
			answer.Contents = append(answer.Contents, content{url.QueryEscape(key), "2001-09-09T01:46:40.000Z", `"` + o.ETag + `"`, o.Size})
		}
	}
	answerXML(w, answer)
}
