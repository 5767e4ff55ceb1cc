"""Questions about pictures with a checked answer and several tries: GeoQA, generated diagrams, easy-VQA."""
