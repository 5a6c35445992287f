# The studio of Lowtide in a container, as a user who is not root. Data is a volume; nothing else is written but /tmp.
#
#   docker build -t lowtide .
#   docker run --rm --init -p 127.0.0.1:8642:8642 -v "$PWD:/data" --user "$(id -u):$(id -g)" \
#     -e LOWTIDE_TOKEN="$(openssl rand -hex 16)" lowtide
#
# The token is printed in the address; -p 127.0.0.1: keeps other machines out.
FROM python:3.12-slim AS build

WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
# PyTorch for the CPU alone is a tenth of the size of that for graphics cards, and of the version that is pinned:
# --build-arg PIP_EXTRA_INDEX_URL=… names an index that has it.
ARG PIP_EXTRA_INDEX_URL=
RUN python -m venv /opt/lowtide \
    && /opt/lowtide/bin/pip install --no-cache-dir --constraint constraints.txt ".[demo,studio,torch]"

FROM python:3.12-slim

COPY --from=build /opt/lowtide /opt/lowtide
RUN useradd --create-home --uid 10001 lowtide \
    && mkdir /data \
    && chown lowtide:lowtide /data
# A user whom the container does not know (--user) has no home of their own, and may write to /tmp.
ENV PATH="/opt/lowtide/bin:$PATH" HOME=/tmp PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
USER lowtide
WORKDIR /data
VOLUME /data
EXPOSE 8642
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8642/health', timeout=4)"]
STOPSIGNAL SIGINT
# Refuses to start without LOWTIDE_TOKEN, 16 letters or more: the container's port can be reached from outside it.
CMD ["lowtide", "studio", "/data", "--host", "0.0.0.0", "--expose", "--port", "8642", "--no-browser"]
